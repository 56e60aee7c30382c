// The rows that have come, in pages; asks for those that are looked at.
import { type Channel, isAbort } from "../channel";
import type { Cell, Query } from "./types";

export const PAGE = 100;

export interface Row {
  key: string;
  cells: Cell[];
}

export class Pages {
  #rows = new Map<number, Row>();
  #asked = new Set<number>();
  #stop = new AbortController();
  total = 0;
  unfiltered = 0;

  constructor(
    readonly channel: Channel,
    readonly changed: () => void,
    readonly failed: (text: string) => void,
    signal: AbortSignal,
  ) {
    signal.addEventListener("abort", () => this.#stop.abort());
  }

  row(index: number): Row | undefined {
    return this.#rows.get(index);
  }

  /** Forgets everything and asks for the first rows in view. What was shown stays until they come. */
  async reset(query: Query, first: number): Promise<void> {
    this.#stop.abort();
    this.#stop = new AbortController();
    this.#asked.clear();
    const page = Math.floor(first / PAGE);
    await this.#ask(page, query, true);
  }

  /** Asks for the pages that hold these rows, unless they have come or are on their way. */
  want(first: number, last: number, query: Query): void {
    for (let page = Math.floor(first / PAGE); page <= Math.floor(Math.max(first, last) / PAGE); page++) {
      if (!this.#asked.has(page) && page * PAGE < this.total) void this.#ask(page, query, false);
    }
  }

  async #ask(page: number, query: Query, fresh: boolean): Promise<void> {
    this.#asked.add(page);
    const { signal } = this.#stop;
    try {
      const fields = { query, start: page * PAGE, count: PAGE };
      const { data } = await this.channel.request("table.rows", fields, { signal, timeout: null });
      if (fresh) this.#rows = new Map();
      this.total = data.total;
      this.unfiltered = data.unfiltered;
      data.keys.forEach((key, index) => {
        this.#rows.set(data.start + index, { key, cells: data.cells[index] ?? [] });
      });
      this.changed();
    } catch (error) {
      this.#asked.delete(page);
      if (!isAbort(error)) this.failed(error instanceof Error ? error.message : String(error));
    }
  }
}
