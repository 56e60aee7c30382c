import { describe, expect, it, vi } from "vitest";
import { Channel, type MessageModel, NoReplyError, RefusedError } from "./channel";
import { type Arrays, Assembler, pack } from "./transfer";

class FakeModel implements MessageModel {
  sent: Record<string, unknown>[] = [];
  listeners = new Set<(content: unknown, buffers: DataView[]) => void>();
  on(_name: "msg:custom", callback: (content: unknown, buffers: DataView[]) => void): void {
    this.listeners.add(callback);
  }
  off(_name: "msg:custom", callback: (content: unknown, buffers: DataView[]) => void): void {
    this.listeners.delete(callback);
  }
  send(content: unknown): void {
    this.sent.push(content as Record<string, unknown>);
  }
  receive(message: Record<string, unknown>, arrays: Arrays = {}): void {
    for (const part of pack(message, arrays)) {
      for (const listener of this.listeners) {
        listener(
          part.content,
          part.buffers.map((buffer) => new DataView(buffer)),
        );
      }
    }
  }
}

const open = () => {
  const model = new FakeModel();
  const end = new AbortController();
  return { model, end, channel: new Channel(model, end.signal) };
};

describe("channel", () => {
  it("resolves with the reply of its own id", async () => {
    const { model, channel } = open();
    const first = channel.request("graph.card", { item: "a" });
    const second = channel.request("graph.card", { item: "b" });
    expect(model.sent.map(({ kind, ...rest }) => [kind, rest.id === undefined])).toEqual([
      ["graph.card", false],
      ["graph.card", false],
    ]);
    model.receive({ re: model.sent[1]?.id, ok: true, data: { title: "B" } });
    model.receive({ re: model.sent[0]?.id, ok: true, data: { title: "A" } });
    expect((await first).data.title).toBe("A");
    expect((await second).data.title).toBe("B");
  });

  it("rejects with the kernel's words", async () => {
    const { model, channel } = open();
    const answer = channel.request("graph.probe", { tensor: "y", on: true });
    model.receive({ re: model.sent[0]?.id, ok: false, error: "no such tensor" });
    await expect(answer).rejects.toEqual(new RefusedError("no such tensor"));
  });

  it("gives up after its timeout and says so to Python", async () => {
    vi.useFakeTimers();
    const { model, channel } = open();
    const answer = channel.request("graph.card", { item: "a" }, { timeout: 50 });
    const seen = expect(answer).rejects.toBeInstanceOf(NoReplyError);
    await vi.advanceTimersByTimeAsync(60);
    await seen;
    expect(model.sent[1]).toEqual({ kind: "cancel", id: model.sent[0]?.id });
    vi.useRealTimers();
  });

  it("cancels by signal, and ignores the reply that still comes", async () => {
    const { model, channel } = open();
    const stop = new AbortController();
    const answer = channel.request("graph.card", { item: "a" }, { signal: stop.signal });
    stop.abort();
    await expect(answer).rejects.toMatchObject({ name: "AbortError" });
    expect(model.sent[1]).toEqual({ kind: "cancel", id: model.sent[0]?.id });
    model.receive({ re: model.sent[0]?.id, ok: true, data: {} });
  });

  it("does not send what is cancelled before", async () => {
    const { model, channel } = open();
    await expect(channel.request("graph.card", { item: "a" }, { signal: AbortSignal.abort() })).rejects.toMatchObject({
      name: "AbortError",
    });
    expect(model.sent).toEqual([]);
  });

  it("ends with its view", async () => {
    const { model, end, channel } = open();
    const answer = channel.request("graph.card", { item: "a" });
    end.abort();
    await expect(answer).rejects.toMatchObject({ name: "AbortError" });
    expect(model.listeners.size).toBe(0);
  });

  it("hears events", () => {
    const { model, channel } = open();
    const heard = vi.fn();
    channel.on("graph.changed", heard);
    model.receive({ kind: "graph.changed" });
    model.receive({ kind: "table.changed" });
    expect(heard).toHaveBeenCalledOnce();
  });

  it("survives malformed messages", () => {
    const { model } = open();
    const logged = vi.spyOn(console, "error").mockImplementation(() => undefined);
    model.receive({ kind: "part" });
    expect(logged).toHaveBeenCalledOnce();
    logged.mockRestore();
  });
});

describe("transfer", () => {
  it("cuts big arrays and puts them together in any order", () => {
    const data = Float32Array.from({ length: 600_000 }, (_, index) => index / 3);
    const flags = Uint8Array.of(1, 2, 3);
    const parts = pack(
      { kind: "x", text: "né" },
      { data: { data, shape: [2, 300_000] }, flags: { data: flags, shape: [3] } },
    );
    expect(parts.length).toBe(3);
    expect(Math.max(...parts.map((part) => part.buffers[0]?.byteLength ?? 0))).toBeLessThanOrEqual(1_000_000);
    const assembler = new Assembler();
    const wholes = parts.reverse().map((part) =>
      assembler.add(
        part.content,
        part.buffers.map((buffer) => new DataView(buffer)),
      ),
    );
    expect(wholes.slice(0, 2)).toEqual([null, null]);
    expect(wholes[2]?.message).toEqual({ kind: "x", text: "né" });
    expect(wholes[2]?.arrays.data).toEqual({ data, shape: [2, 300_000] });
    expect(wholes[2]?.arrays.flags).toEqual({ data: flags, shape: [3] });
  });

  it("refuses arrays that are longer than what was sent", () => {
    const [part] = pack({ a: 1 }, { b: { data: Uint8Array.of(1), shape: [1] } });
    if (!part) throw new Error("no part");
    part.content.arrays = [{ name: "b", dtype: "float64", shape: [100] }];
    expect(() =>
      new Assembler().add(
        part.content,
        part.buffers.map((buffer) => new DataView(buffer)),
      ),
    ).toThrow("longer than what was sent");
  });
});
