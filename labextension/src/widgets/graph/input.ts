// Mouse, touch, wheel and keys on the stage, as what the user means by them.
import type { Camera, Point } from "./camera";

export interface Gestures {
  hover(at: Point | null): void;
  choose(at: Point): void;
  activate(): void;
  moved(): void;
  key(event: KeyboardEvent): boolean;
}

const CLICK_SLACK = 4;

/** Listens on the stage until `signal` fires. */
export function listen(stage: HTMLElement, camera: Camera, gestures: Gestures, signal: AbortSignal): void {
  const at = (event: MouseEvent): Point => {
    const box = stage.getBoundingClientRect();
    return { x: event.clientX - box.left - stage.clientLeft, y: event.clientY - box.top - stage.clientTop };
  };
  drag(stage, camera, gestures, at, signal);
  stage.addEventListener("dblclick", () => gestures.activate(), { signal });
  stage.addEventListener(
    "wheel",
    (event) => {
      // Without Ctrl a graph that was not clicked leaves the wheel to the page.
      const zooms = event.ctrlKey || event.metaKey || stage.contains(document.activeElement);
      if (!zooms) return;
      event.preventDefault();
      if (event.shiftKey) camera.pan(-event.deltaY - event.deltaX, 0);
      else {
        const pixels = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? event.deltaY * 16 : event.deltaY;
        camera.zoomAt(at(event), Math.exp(-Math.max(-120, Math.min(120, pixels)) * 0.0022));
      }
      gestures.moved();
    },
    { signal, passive: false },
  );
  stage.addEventListener(
    "keydown",
    (event) => {
      const command = event.ctrlKey || event.metaKey;
      if (event.target !== stage || event.altKey || (command && event.key !== "z")) return;
      if (!gestures.key(event)) return;
      event.preventDefault();
      event.stopPropagation();
    },
    { signal },
  );
}

/** Drag pans, two fingers zoom, a press that does not move chooses. */
function drag(
  stage: HTMLElement,
  camera: Camera,
  gestures: Gestures,
  at: (event: MouseEvent) => Point,
  signal: AbortSignal,
): void {
  const fingers = new Map<number, Point>();
  let start: Point | null = null;
  let moved = false;

  stage.addEventListener(
    "pointerdown",
    (event) => {
      if (event.button !== 0 || event.target !== stage.firstElementChild) return;
      stage.focus({ preventScroll: true });
      stage.setPointerCapture(event.pointerId);
      fingers.set(event.pointerId, at(event));
      start = at(event);
      moved = false;
    },
    { signal },
  );
  stage.addEventListener(
    "pointermove",
    (event) => {
      const before = fingers.get(event.pointerId);
      const now = at(event);
      if (!before) {
        gestures.hover(event.target === stage.firstElementChild ? now : null);
        return;
      }
      if (start && Math.hypot(now.x - start.x, now.y - start.y) > CLICK_SLACK && !moved) {
        moved = true;
        gestures.hover(null);
        stage.classList.add("trt-dragging");
      }
      fingers.set(event.pointerId, now);
      if (!moved) return;
      const other = [...fingers].find(([id]) => id !== event.pointerId)?.[1];
      if (other) {
        const factor =
          Math.hypot(now.x - other.x, now.y - other.y) /
          Math.max(1, Math.hypot(before.x - other.x, before.y - other.y));
        camera.zoomAt({ x: (now.x + other.x) / 2, y: (now.y + other.y) / 2 }, factor);
      } else camera.pan(now.x - before.x, now.y - before.y);
      gestures.moved();
    },
    { signal },
  );
  const end = (event: PointerEvent): void => {
    if (!fingers.delete(event.pointerId)) return;
    stage.classList.remove("trt-dragging");
  };
  stage.addEventListener(
    "click",
    (event) => {
      // The second press of a double click (detail 2) chooses nothing new.
      if (!moved && start && event.detail === 1) gestures.choose(at(event));
      start = null;
    },
    { signal },
  );
  stage.addEventListener("pointerup", end, { signal });
  stage.addEventListener("pointercancel", end, { signal });
  stage.addEventListener("pointerleave", () => gestures.hover(null), { signal });
}
