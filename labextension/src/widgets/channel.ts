// Requests to Python and their replies, events, and big data, over a widget's custom messages.
// The other end, and the form of the messages, is trt_lab/widgets/channel.py.
import type { Events, Requests } from "../wire.gen";
import { type Arrays, Assembler, pack, type Whole } from "./transfer";

/** What the channel needs of an anywidget model. */
export interface MessageModel {
  on(name: "msg:custom", callback: (content: unknown, buffers: DataView[]) => void): void;
  off(name: "msg:custom", callback: (content: unknown, buffers: DataView[]) => void): void;
  send(content: unknown, callbacks?: unknown, buffers?: ArrayBuffer[] | ArrayBufferView[]): void;
}

export type Kind = keyof Requests;
export type Fields<K extends Kind> = Omit<Requests[K]["request"], "kind">;

export interface Answer<K extends Kind> {
  data: Requests[K]["reply"];
  arrays: Arrays;
}

export interface RequestOptions {
  signal?: AbortSignal;
  /** How long to wait, in ms; null waits for as long as it takes. */
  timeout?: number | null;
  arrays?: Arrays;
}

/** Python refused the request; the message is for the user. */
export class RefusedError extends Error {}

/** No reply in time: the kernel is busy or gone. */
export class NoReplyError extends Error {}

const TIMEOUT = 20_000;

interface Waiting {
  resolve(answer: { data: unknown; arrays: Arrays }): void;
  reject(error: Error): void;
}

type Listener = (event: Record<string, unknown>, arrays: Arrays) => void;

export class Channel {
  readonly #model: MessageModel;
  readonly #assembler = new Assembler();
  readonly #waiting = new Map<string, Waiting>();
  readonly #listeners = new Map<string, Set<Listener>>();
  readonly #prefix = crypto.randomUUID().slice(0, 8);
  #count = 0;

  /** The channel of one view. It ends with `signal`; requests still waiting are then rejected. */
  constructor(model: MessageModel, signal: AbortSignal) {
    this.#model = model;
    const receive = (content: unknown, buffers: DataView[]): void => this.#receive(content, buffers);
    model.on("msg:custom", receive);
    signal.addEventListener("abort", () => {
      model.off("msg:custom", receive);
      for (const waiting of this.#waiting.values()) waiting.reject(new DOMException("view closed", "AbortError"));
      this.#waiting.clear();
      this.#listeners.clear();
    });
  }

  /**
   * Asks Python.
   *
   * Rejects with RefusedError (its text is for the user), NoReplyError, or an AbortError when `signal` fires; Python is
   * then told that the reply is no longer wanted.
   */
  request<K extends Kind>(kind: K, fields: Fields<K>, options: RequestOptions = {}): Promise<Answer<K>> {
    const { signal, timeout = TIMEOUT, arrays } = options;
    if (signal?.aborted) return Promise.reject(new DOMException("cancelled", "AbortError"));
    const id = `${this.#prefix}.${++this.#count}`;
    const done = new AbortController();
    return new Promise<Answer<K>>((resolve, reject) => {
      this.#waiting.set(id, { resolve: resolve as Waiting["resolve"], reject });
      const stop = (error: Error): void => {
        reject(error);
        this.#model.send({ kind: "cancel", id });
      };
      signal?.addEventListener("abort", () => stop(new DOMException("cancelled", "AbortError")), {
        signal: done.signal,
      });
      if (timeout !== null) {
        const timer = setTimeout(
          () => stop(new NoReplyError("no answer from the kernel: it is busy or gone")),
          timeout,
        );
        done.signal.addEventListener("abort", () => clearTimeout(timer));
      }
      this.#send({ id, kind, ...fields }, arrays);
    }).finally(() => {
      this.#waiting.delete(id);
      done.abort();
    });
  }

  /** Calls `listener` for each event of a kind, for as long as the channel lives. */
  on<K extends keyof Events>(kind: K, listener: (event: Events[K], arrays: Arrays) => void): void {
    const listeners = this.#listeners.get(kind) ?? new Set();
    listeners.add(listener as unknown as Listener);
    this.#listeners.set(kind, listeners);
  }

  #send(message: Record<string, unknown>, arrays?: Arrays): void {
    for (const part of pack(message, arrays)) this.#model.send(part.content, undefined, part.buffers);
  }

  #receive(content: unknown, buffers: DataView[]): void {
    if (typeof content !== "object" || content === null) return;
    let whole: Whole | null;
    try {
      whole = this.#assembler.add(content as Record<string, unknown>, buffers ?? []);
    } catch (error) {
      console.error("trt-lab: bad message from the kernel", error);
      return;
    }
    if (whole) this.#deliver(whole);
  }

  #deliver({ message, arrays }: Whole): void {
    if (typeof message.re === "string") {
      const waiting = this.#waiting.get(message.re);
      if (message.ok === true) waiting?.resolve({ data: message.data, arrays });
      else waiting?.reject(new RefusedError(String(message.error ?? "the kernel gave no reason")));
      return;
    }
    for (const listener of this.#listeners.get(String(message.kind)) ?? []) listener(message, arrays);
  }
}

/** Whether an error only says that the reply is no longer wanted. */
export function isAbort(error: unknown): boolean {
  return error instanceof DOMException && error.name === "AbortError";
}
