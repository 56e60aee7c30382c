// Names for parts of the wire that the table uses.
import type { Requests } from "../../wire.gen";

export type RowsReply = Requests["table.rows"]["reply"];
export type Cell = RowsReply["cells"][number][number];

export interface Query {
  sort: string;
  descending: boolean;
  filter: string;
}
