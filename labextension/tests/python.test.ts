import { describe, expect, it } from "vitest";
import { exportCode, kernelPath, literal, notebookCell, openCode } from "../src/plugin/python";

describe("what the plugins run in a kernel", () => {
  it("keeps any path one string", () => {
    const hostile = 'a"); import os; os.system("x") #\n\\\'é模\u2028😀';
    const written = literal(hostile);
    // Only \" \\ and \n need an escape here, and Python reads these three as JSON does.
    expect(written).toBe('"a\\"); import os; os.system(\\"x\\") #\\n\\\\\'é模\u2028😀"');
    expect(openCode(hostile).split("\n")).toHaveLength(3);
    expect(openCode(hostile)).toContain(`Path(${written})`);
    expect(exportCode(hostile)).toContain(`Path(${written})`);
    expect(notebookCell(hostile, false)).toContain(`trt_lab.Session(${written})`);
  });

  it("makes a record a record", () => {
    expect(notebookCell("run.trtlab", true)).toContain('trt_lab.Record.open("run.trtlab")');
  });
});

describe("the path a kernel sees", () => {
  it("lies below the served folder", () => {
    expect(kernelPath("/data", "a/m.onnx")).toBe("/data/a/m.onnx");
    expect(kernelPath("/", "m.onnx")).toBe("/m.onnx");
    expect(kernelPath("~/work/", "m.onnx")).toBe("~/work/m.onnx");
  });

  it("lies beside the kernel where the served folder is not known", () => {
    expect(kernelPath("", "a/b/m.onnx")).toBe("./m.onnx");
    expect(kernelPath("", "~m.onnx")).toBe("./~m.onnx");
  });
});
