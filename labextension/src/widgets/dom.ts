// DOM nodes from code. Text is always set as text: names come from models that nobody has checked.

type Child = Node | string | null | undefined | false;

export interface Attributes {
  class?: string;
  text?: string;
  title?: string;
  [name: string]: string | number | boolean | undefined | ((event: never) => void);
}

/** Makes an element. `onclick` and the like are listeners, `true` is an empty attribute, false and undefined are left out. */
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name.slice(2), value as EventListener);
    else if (name === "text") element.textContent = String(value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.filter((child): child is Node | string => Boolean(child)));
  return element;
}

/** Shortens a long text in the middle, where names differ least. */
export function elide(text: string, length: number): string {
  if (text.length <= length) return text;
  if (length < 3) return text.slice(0, length);
  const head = Math.ceil((length - 1) / 2);
  return `${text.slice(0, head)}…${text.slice(text.length - (length - 1 - head))}`;
}
