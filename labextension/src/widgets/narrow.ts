// Says to the style sheet of a workbench whether it is narrow. A container query would say so as well, but a browser lays
// out all that is in the container at every change then: 5 ms for each in place of 0.3 ms.
const WORKBENCH = ".trt-lab-workbench";

/** The class of a narrow workbench, see trt_lab/widgets/workbench.css. */
export const NARROW = "trt-lab-narrow";
/** The widest workbench whose parts stand one above the other, in CSS pixels. */
export const NARROW_MAX = 800;

/** Marks the workbench around `element`, if there is one, whenever the size of `element` changes. */
export function watchNarrow(element: HTMLElement, signal: AbortSignal): void {
  const observer = new ResizeObserver(() => markNarrow(element));
  observer.observe(element);
  signal.addEventListener("abort", () => observer.disconnect());
}

/** One that is hidden has no width, and stays as it is. */
export function markNarrow(element: HTMLElement): void {
  const workbench = element.closest<HTMLElement>(WORKBENCH);
  const width = workbench?.clientWidth ?? 0;
  if (width > 0) workbench?.classList.toggle(NARROW, width <= NARROW_MAX);
}
