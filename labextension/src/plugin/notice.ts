import { Widget } from "@lumino/widgets";

/** A button of a notice. */
export interface Choice {
  label: string;
  act: () => void;
}

/** What a panel says in place of the workbench: that it is loading, or what went wrong and what can be done. */
export class Notice extends Widget {
  constructor() {
    super();
    this.addClass("trt-lab-Notice");
  }

  /** Shows that something is going on. */
  showProgress(text: string): void {
    this.node.setAttribute("role", "status");
    const spinner = element("div", "trt-lab-Notice-spinner");
    spinner.setAttribute("aria-hidden", "true");
    this.node.replaceChildren(spinner, element("p", "trt-lab-Notice-text", text));
    this.show();
  }

  /** Shows what went wrong. The first choice is the proposed one. */
  showProblem(title: string, text: string, choices: Choice[]): void {
    this.node.setAttribute("role", "alert");
    const buttons = element("div", "trt-lab-Notice-choices");
    choices.forEach((choice, position) => {
      const style = position === 0 ? "jp-mod-accept" : "jp-mod-reject";
      const button = element("button", `jp-mod-styled ${style}`, choice.label);
      button.addEventListener("click", () => choice.act());
      buttons.append(button);
    });
    this.node.replaceChildren(
      element("h2", "trt-lab-Notice-title", title),
      element("p", "trt-lab-Notice-text", text),
      buttons,
    );
    this.show();
  }
}

function element(tag: string, className: string, text = ""): HTMLElement {
  const node = document.createElement(tag);
  node.className = className;
  node.textContent = text;
  return node;
}
