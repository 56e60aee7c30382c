// Whether the kernel behind a widget is there. A restarted or ended kernel leaves the view in the page.
import { type Channel, isAbort } from "./channel";

export const KERNEL_GONE = "Kernel gone: run the cell again.";
export const KERNEL_SILENT = "No answer from the kernel: it is busy, or gone. If it is gone, run the cell again.";

const PATIENCE = 8_000;
const BLINK = 500;

/** The part of an anywidget model that tells about its kernel. */
export interface LiveModel {
  on(name: "comm_live_update", callback: () => void): void;
  off(name: "comm_live_update", callback: () => void): void;
  widget_manager?: unknown;
}

/** What the page itself knows: false when there is no kernel, or a dead one; null when it does not say. */
function knownByPage(model: LiveModel): boolean | null {
  const manager = model.widget_manager as { kernel?: { status?: string; isDisposed?: boolean } | null } | undefined;
  if (!manager || !("kernel" in manager)) return null;
  const kernel = manager.kernel;
  if (!kernel || kernel.isDisposed || kernel.status === "dead" || kernel.status === "terminating") return false;
  return null;
}

/**
 * Tells `show` what to write over the view: "" once the kernel answers, else why not.
 *
 * It asks at the start, and again whenever the page says that the connection changed.
 */
export function watchKernel(
  model: LiveModel,
  channel: Channel,
  signal: AbortSignal,
  show: (text: string) => void,
): void {
  let asked = 0;
  const ask = async (unanswered: string, patience: number): Promise<void> => {
    const mine = ++asked;
    const tell = (text: string): void => {
      if (mine === asked && !signal.aborted) show(text);
    };
    if (knownByPage(model) === false) {
      tell(KERNEL_GONE);
      return;
    }
    const timer = setTimeout(() => tell(unanswered), patience);
    signal.addEventListener("abort", () => clearTimeout(timer));
    try {
      await channel.request("ping", {}, { signal, timeout: null });
      tell("");
    } catch (error) {
      if (!isAbort(error)) tell(KERNEL_GONE);
    } finally {
      clearTimeout(timer);
    }
  };
  // The comm of a live widget changes state when its kernel goes.
  const again = (): void => void ask(KERNEL_GONE, BLINK);
  model.on("comm_live_update", again);
  signal.addEventListener("abort", () => model.off("comm_live_update", again));
  void ask(KERNEL_SILENT, PATIENCE);
}
