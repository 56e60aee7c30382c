// Messages with named arrays, cut into parts. The form is told in trt_lab/widgets/transfer.py.
import { DTYPES, MAX_PARTS, PART_BYTES } from "../wire.gen";

export type Dtype = (typeof DTYPES)[number];

export type TypedArray =
  | Uint8Array
  | Int8Array
  | Uint16Array
  | Int16Array
  | Uint32Array
  | Int32Array
  | Float32Array
  | Float64Array;

const CONSTRUCTORS = {
  uint8: Uint8Array,
  int8: Int8Array,
  uint16: Uint16Array,
  int16: Int16Array,
  uint32: Uint32Array,
  int32: Int32Array,
  float32: Float32Array,
  float64: Float64Array,
} as const;

export interface NamedArray {
  data: TypedArray;
  shape: number[];
}

export type Arrays = Record<string, NamedArray>;

export interface Whole {
  message: Record<string, unknown>;
  arrays: Arrays;
}

export interface Part {
  content: Record<string, unknown>;
  buffers: ArrayBuffer[];
}

interface Description {
  name: string;
  dtype: Dtype;
  shape: number[];
}

interface Open {
  count: number;
  jsonBytes: number;
  arrays: Description[];
  parts: Map<number, Uint8Array>;
}

const padded = (size: number): number => Math.ceil(size / 8) * 8;

const isCount = (value: unknown): value is number => Number.isInteger(value) && (value as number) >= 0;

/** A part or message that does not follow the form. */
export class TransferError extends Error {}

function dtypeOf(data: TypedArray): Dtype {
  const found = DTYPES.find((name) => data instanceof CONSTRUCTORS[name]);
  if (!found) throw new TransferError("array of a type that the other side does not know");
  return found;
}

/** What to send, in order. */
export function pack(message: Record<string, unknown>, arrays: Arrays = {}): Part[] {
  const names = Object.keys(arrays);
  const text = new TextEncoder().encode(JSON.stringify(message));
  if (names.length === 0 && text.length <= PART_BYTES) return [{ content: message, buffers: [] }];
  const total = padded(text.length) + names.reduce((sum, name) => sum + padded(arrays[name]?.data.byteLength ?? 0), 0);
  const stream = new Uint8Array(total);
  stream.fill(0x20, 0, padded(text.length));
  stream.set(text);
  let offset = padded(text.length);
  const descriptions: Description[] = [];
  for (const [name, { data, shape }] of Object.entries(arrays)) {
    stream.set(new Uint8Array(data.buffer, data.byteOffset, data.byteLength), offset);
    offset += padded(data.byteLength);
    descriptions.push({ name, dtype: dtypeOf(data), shape });
  }
  const count = Math.max(1, Math.ceil(total / PART_BYTES));
  if (count > MAX_PARTS) throw new TransferError("message is too large");
  const transfer = crypto.randomUUID();
  return Array.from({ length: count }, (_, index) => ({
    content: {
      kind: "part",
      transfer,
      index,
      count,
      ...(index === 0 ? { json_bytes: text.length, arrays: descriptions } : {}),
    },
    buffers: [stream.slice(index * PART_BYTES, (index + 1) * PART_BYTES).buffer],
  }));
}

function checkDescriptions(value: unknown): Description[] {
  if (value === undefined) return [];
  if (!Array.isArray(value)) throw new TransferError("arrays of a part are not a list");
  for (const item of value as Partial<Description>[]) {
    const fits = Array.isArray(item?.shape) && item.shape.every(isCount);
    if (!fits || typeof item.name !== "string" || !DTYPES.includes(item.dtype as Dtype)) {
      throw new TransferError("array without name, known dtype and shape");
    }
  }
  return value as Description[];
}

/** Puts parts together again. */
export class Assembler {
  readonly #open = new Map<string, Open>();

  /** The whole message, or null while parts are missing. Throws TransferError on a malformed part. */
  add(content: Record<string, unknown>, buffers: readonly ArrayBufferView[]): Whole | null {
    if (content.kind !== "part") return { message: content, arrays: {} };
    const { transfer, index, count } = content;
    if (typeof transfer !== "string" || !isCount(index) || !isCount(count) || index >= count || count > MAX_PARTS) {
      throw new TransferError("part without transfer, index or count in range");
    }
    const buffer = buffers[0];
    if (!buffer) throw new TransferError("part without its buffer");
    const entry = this.#open.get(transfer) ?? { count, jsonBytes: 0, arrays: [], parts: new Map() };
    this.#open.set(transfer, entry);
    if (index === 0) {
      entry.arrays = checkDescriptions(content.arrays);
      entry.jsonBytes = isCount(content.json_bytes) ? content.json_bytes : 0;
    }
    entry.parts.set(index, new Uint8Array(buffer.buffer, buffer.byteOffset, buffer.byteLength));
    if (entry.parts.size < entry.count) return null;
    this.#open.delete(transfer);
    return unpack(entry);
  }
}

function unpack(entry: Open): Whole {
  const pieces = Array.from({ length: entry.count }, (_, index) => entry.parts.get(index) ?? new Uint8Array());
  const stream = new Uint8Array(pieces.reduce((sum, piece) => sum + piece.length, 0));
  let offset = 0;
  for (const piece of pieces) {
    stream.set(piece, offset);
    offset += piece.length;
  }
  const message: unknown = JSON.parse(new TextDecoder().decode(stream.subarray(0, entry.jsonBytes)));
  if (typeof message !== "object" || message === null) throw new TransferError("message is not an object");
  const arrays: Arrays = {};
  offset = padded(entry.jsonBytes);
  for (const { name, dtype, shape } of entry.arrays) {
    const Typed = CONSTRUCTORS[dtype];
    const size = shape.reduce((product, length) => product * length, 1);
    if (offset + size * Typed.BYTES_PER_ELEMENT > stream.length) {
      throw new TransferError(`array ${name} is longer than what was sent`);
    }
    arrays[name] = { data: new Typed(stream.buffer, offset, size), shape };
    offset += padded(size * Typed.BYTES_PER_ELEMENT);
  }
  return { message: message as Record<string, unknown>, arrays };
}
