// One view of the table widget: header, filter, and the rows that are in sight.
import type { Column } from "../../wire.gen";
import { Channel, isAbort, type MessageModel } from "../channel";
import { h } from "../dom";
import { type LiveModel, watchKernel } from "../kernel";
import { readTheme, watchTheme } from "../theme";
import { cellContent, isNumeric, textOf } from "./cells";
import { Pages, type Row } from "./pages";
import type { Query } from "./types";

/** The traits of `trt_lab.widgets.table.TableWidget`. */
export interface Traits {
  columns: Column[];
  empty: string;
  rows_shown: number;
  label: string;
  selected: string;
}

export interface TableModel extends LiveModel, Pick<MessageModel, "send"> {
  get<K extends keyof Traits>(name: K): Traits[K];
  set<K extends keyof Traits>(name: K, value: Traits[K]): void;
  save_changes(): void;
  on(name: string, callback: (...values: never[]) => void): void;
  off(name: string, callback: (...values: never[]) => void): void;
}

export const ROW = 26;
const SPARE = 8;
const FILTER_WAIT = 150;
/** A table shorter than this needs no filter. */
const FILTER_FROM = 8;

let made = 0;

export class TableView {
  readonly element: HTMLElement;
  readonly #channel: Channel;
  readonly #pages: Pages;
  readonly #prefix = `trt-row-${++made}`;
  readonly #query: Query = { sort: "", descending: false, filter: "" };
  readonly #head = h("div", { class: "trt-row trt-head", role: "row", "aria-rowindex": 1 });
  readonly #body = h("div", { class: "trt-body", role: "rowgroup" });
  readonly #grid: HTMLElement;
  readonly #count = h("span", { class: "trt-faint trt-count", role: "status" });
  readonly #filter = h("input", {
    type: "search",
    class: "trt-filter",
    placeholder: "Filter",
    "aria-label": "Filter rows",
    spellcheck: "false",
  });
  readonly #tools = h("div", { class: "trt-tools", hidden: true }, this.#filter, this.#count);
  readonly #notice = h("div", { class: "trt-empty", role: "status" });
  readonly #kernel = h("div", { class: "trt-kernel", role: "alert", hidden: true });
  /** Index of the selected row where that is known, else -1. */
  #active = -1;
  #frame = 0;

  constructor(
    readonly model: TableModel,
    readonly signal: AbortSignal,
  ) {
    this.#channel = new Channel(model, signal);
    this.#pages = new Pages(
      this.#channel,
      () => this.#arrived(),
      (text) => this.#say(text),
      signal,
    );
    this.#grid = h(
      "div",
      { class: "trt-grid", role: "grid", tabindex: "0", "aria-label": model.get("label") },
      this.#head,
      this.#body,
    );
    this.element = h(
      "div",
      { class: "trt-table", "data-lm-suppress-shortcuts": "true" },
      this.#tools,
      h("div", { class: "trt-frame" }, this.#grid, this.#notice, this.#kernel),
    );
    this.#listen();
    this.#drawHead();
    void this.#reset();
  }

  #listen(): void {
    const { model, signal } = this;
    const on = (name: string, react: () => void): void => {
      model.on(name, react);
      signal.addEventListener("abort", () => model.off(name, react));
    };
    on("change:selected", () => void this.#reveal());
    on("change:columns", () => this.#drawHead());
    on("change:empty", () => this.#arrived());
    this.#channel.on("table.changed", () => void this.#reset());
    this.#grid.addEventListener("scroll", () => this.#draw(), { signal, passive: true });
    this.#grid.addEventListener("keydown", (event) => this.#key(event), { signal });
    this.#body.addEventListener("click", (event) => this.#click(event), { signal });
    let timer = 0;
    this.#filter.addEventListener(
      "input",
      () => {
        clearTimeout(timer);
        timer = window.setTimeout(() => {
          this.#query.filter = this.#filter.value;
          void this.#reset();
        }, FILTER_WAIT);
      },
      { signal },
    );
    watchKernel(model, this.#channel, signal, (text) => {
      this.#kernel.textContent = text;
      this.#kernel.hidden = text === "";
    });
    watchTheme(() => this.#retheme(), signal);
  }

  /** Call once the element is in the page. */
  attach(): void {
    this.#retheme();
    let hidden = true;
    const observer = new ResizeObserver(() => {
      const shown = this.#grid.clientHeight > 0;
      if (shown && hidden) {
        // What is in no page has no theme, and what is hidden (a tab below) cannot be scrolled.
        this.#retheme();
        if (this.#active >= 0) this.#scrollTo(this.#active);
      }
      hidden = !shown;
      this.#draw();
    });
    observer.observe(this.#grid);
    this.signal.addEventListener("abort", () => {
      observer.disconnect();
      cancelAnimationFrame(this.#frame);
    });
  }

  #retheme(): void {
    this.element.classList.toggle("trt-dark", readTheme(this.element).dark);
  }

  async #reset(): Promise<void> {
    const first = Math.floor(this.#grid.scrollTop / ROW);
    await this.#pages.reset(this.#query, first);
    if (first > this.#pages.total) this.#grid.scrollTop = 0;
    await this.#reveal();
  }

  /** Finds the selected row and brings it into sight. */
  async #reveal(): Promise<void> {
    const key = this.model.get("selected");
    if (key === "" || this.#pages.row(this.#active)?.key === key) {
      if (key === "") this.#active = -1;
      this.#draw();
      return;
    }
    try {
      const { data } = await this.#channel.request("table.place", { query: this.#query, key }, { signal: this.signal });
      if (this.model.get("selected") !== key) return;
      this.#active = data.index ?? -1;
      if (data.index !== null) this.#scrollTo(data.index);
      this.#draw();
    } catch (error) {
      if (!isAbort(error)) this.#say(error instanceof Error ? error.message : String(error));
    }
  }

  #scrollTo(index: number): void {
    const top = index * ROW;
    const room = this.#grid.clientHeight - ROW;
    if (top < this.#grid.scrollTop) this.#grid.scrollTop = top;
    else if (top + ROW > this.#grid.scrollTop + room) this.#grid.scrollTop = top + ROW - room;
  }

  #choose(index: number): void {
    const row = this.#pages.row(index);
    if (!row) return;
    this.#active = index;
    this.#scrollTo(index);
    if (this.model.get("selected") !== row.key) {
      this.model.set("selected", row.key);
      this.model.save_changes();
    }
    this.#draw();
  }

  #click(event: MouseEvent): void {
    const row = (event.target as Element).closest<HTMLElement>("[data-index]");
    if (row) this.#choose(Number(row.dataset.index));
  }

  #key(event: KeyboardEvent): void {
    if (event.target !== this.#grid || event.ctrlKey || event.metaKey || event.altKey) return;
    const page = Math.max(1, Math.floor(this.#grid.clientHeight / ROW) - 2);
    const last = this.#pages.total - 1;
    const steps: Record<string, number> = {
      ArrowDown: this.#active + 1,
      ArrowUp: Math.max(0, this.#active - 1),
      PageDown: this.#active + page,
      PageUp: this.#active - page,
      Home: 0,
      End: last,
    };
    const target = steps[event.key];
    if (event.key === "/" && !this.#tools.hidden) this.#filter.focus();
    else if (target === undefined) return;
    else {
      const index = Math.max(0, Math.min(last, target));
      this.#scrollTo(index);
      this.#pages.want(index, index, this.#query);
      this.#choose(index);
    }
    event.preventDefault();
    event.stopPropagation();
  }

  #sort(column: Column): void {
    const query = this.#query;
    // First click sorts as one wants to see it: the worst number on top, texts from A; the third takes it back.
    const first = isNumeric(column) || column.format === "verdict";
    if (query.sort !== column.name) Object.assign(query, { sort: column.name, descending: first });
    else if (query.descending === first) query.descending = !first;
    else Object.assign(query, { sort: "", descending: false });
    this.#active = -1;
    this.#grid.scrollTop = 0;
    this.#drawHead();
    void this.#reset();
  }

  #say(text: string): void {
    this.#notice.textContent = text;
    this.#notice.hidden = text === "";
  }

  #arrived(): void {
    const { total, unfiltered } = this.#pages;
    const filtered = this.#query.filter.trim() !== "";
    this.#say(total > 0 ? "" : filtered ? "No row matches the filter." : this.model.get("empty"));
    this.#tools.hidden = unfiltered < FILTER_FROM && !filtered;
    this.#count.textContent =
      total === unfiltered
        ? `${total.toLocaleString("en")} rows`
        : `${total.toLocaleString("en")} of ${unfiltered.toLocaleString("en")} rows`;
    this.#grid.setAttribute("aria-rowcount", String(total + 1));
    this.#body.style.height = `${total * ROW}px`;
    const shown = Math.max(2, Math.min(this.model.get("rows_shown"), unfiltered));
    this.#grid.style.height = `${(shown + 1) * ROW + 2}px`;
    this.element.dataset.rows = String(total);
    this.#draw();
  }

  // --- drawing -----------------------------------------------------------------------------

  #drawHead(): void {
    const columns = this.model.get("columns");
    this.element.style.setProperty("--trt-columns", columns.map(trackOf).join(" "));
    this.element.style.setProperty("--trt-least", `${columns.reduce((sum, column) => sum + leastOf(column), 0)}px`);
    const cells = columns.map((column) => {
      const sorted = this.#query.sort === column.name;
      const arrow = sorted ? (this.#query.descending ? " ▼" : " ▲") : "";
      const button = h(
        "button",
        {
          type: "button",
          class: "trt-sort",
          title: column.help || `Sort by ${column.label}`,
          onclick: () => this.#sort(column),
        },
        column.label,
        column.unit ? h("span", { class: "trt-faint trt-unit", text: ` ${column.unit}` }) : null,
        h("span", { "aria-hidden": "true", text: arrow }),
      );
      const order = sorted ? (this.#query.descending ? "descending" : "ascending") : "none";
      return h(
        "div",
        { role: "columnheader", "aria-sort": order, class: isNumeric(column) ? "trt-cell trt-number" : "trt-cell" },
        button,
      );
    });
    this.#head.replaceChildren(...cells);
  }

  #draw(): void {
    cancelAnimationFrame(this.#frame);
    this.#frame = requestAnimationFrame(() => this.#drawRows());
  }

  #drawRows(): void {
    const first = Math.max(0, Math.floor(this.#grid.scrollTop / ROW) - SPARE);
    const last = Math.min(
      this.#pages.total - 1,
      Math.ceil((this.#grid.scrollTop + this.#grid.clientHeight) / ROW) + SPARE,
    );
    this.#pages.want(first, last, this.#query);
    const columns = this.model.get("columns");
    const rows: HTMLElement[] = [];
    for (let index = first; index <= last; index++) rows.push(this.#drawRow(index, this.#pages.row(index), columns));
    this.#body.replaceChildren(...rows);
    const active = this.#active >= first && this.#active <= last;
    if (active) this.#grid.setAttribute("aria-activedescendant", `${this.#prefix}-${this.#active}`);
    else this.#grid.removeAttribute("aria-activedescendant");
  }

  #drawRow(index: number, row: Row | undefined, columns: Column[]): HTMLElement {
    const chosen = row !== undefined && row.key === this.model.get("selected");
    const cells = columns.map((column, position) => {
      const value = row?.cells[position] ?? null;
      const cell = h("div", { role: "gridcell", class: isNumeric(column) ? "trt-cell trt-number" : "trt-cell" });
      if (!row) cell.textContent = position === 0 ? "…" : "";
      else {
        cell.append(cellContent(value, column));
        if (typeof value === "string") cell.title = textOf(value, column);
      }
      return cell;
    });
    const element = h(
      "div",
      {
        class: chosen ? "trt-row trt-chosen" : "trt-row",
        role: "row",
        id: `${this.#prefix}-${index}`,
        "data-index": index,
        "aria-rowindex": index + 2,
        "aria-selected": chosen ? "true" : "false",
      },
      ...cells,
    );
    element.style.top = `${index * ROW}px`;
    return element;
  }
}

/** Least width of a column, in px. */
function leastOf(column: Column): number {
  if (column.width > 0) return column.width;
  return column.format === "name" ? 150 : column.format === "text" ? 90 : 80;
}

/** Width of a column: as given, else a share of what is left. */
function trackOf(column: Column): string {
  if (column.width > 0) return `${column.width}px`;
  const share = column.format === "name" ? 3 : column.format === "text" ? 2 : 1;
  return `minmax(${leastOf(column)}px, ${share}fr)`;
}
