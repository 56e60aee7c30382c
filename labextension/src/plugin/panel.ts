import type { ISessionContext, ISessionContextDialogs } from "@jupyterlab/apputils";
import { PathExt } from "@jupyterlab/coreutils";
import type { DocumentRegistry } from "@jupyterlab/docregistry";
import { OutputAreaModel, SimplifiedOutputArea } from "@jupyterlab/outputarea";
import type { IRenderMimeRegistry } from "@jupyterlab/rendermime";
import type { Kernel, KernelMessage, Session } from "@jupyterlab/services";
import type { TranslationBundle } from "@jupyterlab/translation";
import { Panel } from "@lumino/widgets";
import { type Choice, Notice } from "./notice";
import { kernelPath, openCode } from "./python";
import { type AttachedManager, attachWidgetManager } from "./widgets";

export interface PanelOptions {
  context: DocumentRegistry.IContext<DocumentRegistry.IModel>;
  rendermime: IRenderMimeRegistry;
  dialogs: ISessionContextDialogs;
  sessions: Session.IManager;
  /** Folder that the server serves, "" if unknown. */
  serverRoot: string;
  trans: TranslationBundle;
}

/** Shows what `trt_lab` displays for a model or record, from a kernel of its own. */
export class WorkbenchPanel extends Panel {
  constructor(private readonly options: PanelOptions) {
    super();
    const { context } = options;
    this.addClass("trt-lab-Panel");
    this.session = context.sessionContext;
    // A clone, because attaching widgets replaces a renderer in it.
    this.rendermime = options.rendermime.clone({ resolver: context.urlResolver });
    this.output = new SimplifiedOutputArea({
      model: new OutputAreaModel({ trusted: true }),
      rendermime: this.rendermime,
    });
    this.addWidget(this.notice);
    this.addWidget(this.output);
    this.showProgress(options.trans.__("Starting the kernel…"));
    this.setPath();
    context.pathChanged.connect(this.setPath, this);
    this.session.kernelChanged.connect(this.onKernelChanged, this);
    this.session.statusChanged.connect(this.onStatusChanged, this);
    this.session.sessionChanged.connect(this.onSessionChanged, this);
    void context.ready.then(() => this.begin());
  }

  override dispose(): void {
    this.attempt += 1;
    this.manager?.then((manager) => manager.dispose()).catch(() => undefined);
    super.dispose();
  }

  /** Path in the contents manager, without the drive. */
  get localPath(): string {
    return this.options.context.localPath;
  }

  /** Path of a file beside the model, as the kernel sees it. */
  pathInKernel(localPath: string): string {
    return kernelPath(this.options.serverRoot, localPath);
  }

  /**
   * Runs code in the panel's kernel; nothing of it is shown.
   *
   * @returns The message of the error that it raised, null when it ended well.
   */
  async run(code: string): Promise<string | null> {
    const kernel = this.session.session?.kernel;
    if (!kernel) {
      return this.options.trans.__("No kernel is running in this panel.");
    }
    const { content } = await kernel.requestExecute({ code, store_history: false }).done;
    return content.status === "ok" ? null : errorText(content);
  }

  /** Starts the kernel anew and opens the file again. */
  async restart(): Promise<void> {
    const status = this.session.session?.kernel?.status;
    if (status && status !== "dead") {
      await this.session.restartKernel(); // `kernelChanged` follows
      return;
    }
    await this.session.shutdown().catch(() => undefined); // it may be gone already
    this.showProgress(this.options.trans.__("Starting the kernel…"));
    if (await this.session.startKernel()) {
      await this.options.dialogs.selectKernel(this.session);
    }
  }

  private async begin(): Promise<void> {
    // A session of this path that has just ended may still be in the list, and must not be joined.
    await this.options.sessions.refreshRunning().catch(() => undefined);
    if (this.isDisposed) return;
    const undecided = await this.session.initialize().catch(() => true);
    if (undecided && !this.isDisposed && !this.session.session?.kernel) {
      this.showNoKernel();
    }
  }

  private onKernelChanged(_: ISessionContext, change: { newValue: Kernel.IKernelConnection | null }): void {
    if (change.newValue) {
      void this.openIn(change.newValue);
    }
  }

  private onStatusChanged(_: ISessionContext, status: Kernel.Status): void {
    const { trans } = this.options;
    if (status === "restarting") {
      this.showProgress(trans.__("Restarting the kernel…")); // `kernelChanged` follows
    } else if (status === "autorestarting") {
      // Not opened again by itself: what killed the kernel could do so for ever.
      this.showProblem(
        trans.__("The kernel died"),
        trans.__("A new one was started. Records on disk are safe; probes and settings of this panel are gone."),
        [{ label: trans.__("Open Again"), act: () => void this.reopen() }],
      );
    } else if (status === "dead") {
      this.onEnd();
    }
  }

  private onSessionChanged(_: ISessionContext, change: { newValue: unknown }): void {
    if (!change.newValue && !this.isDisposed) {
      this.onEnd();
    }
  }

  /**
   * A kernel that is gone before it showed anything is started once more: JupyterLab drops a new session when a list
   * of running ones that was asked for earlier arrives late.
   */
  private onEnd(): void {
    if (this.everReady || this.startedAgain) {
      this.showEnd();
      return;
    }
    this.startedAgain = true;
    void this.restart();
  }

  private async reopen(): Promise<void> {
    const kernel = this.session.session?.kernel;
    await (kernel ? this.openIn(kernel) : this.restart());
  }

  /** Lets the kernel display the file. Only the newest attempt has a say. */
  private async openIn(kernel: Kernel.IKernelConnection): Promise<void> {
    const attempt = ++this.attempt;
    const { trans } = this.options;
    const name = PathExt.basename(this.localPath);
    this.showProgress(trans.__("Opening %1…", name), attempt);
    try {
      await this.attachManager(kernel.id);
      if (attempt !== this.attempt) {
        return;
      }
      const future = kernel.requestExecute({
        code: openCode(this.pathInKernel(this.localPath)),
        store_history: false,
        stop_on_error: true,
      });
      this.output.future = future;
      const { content } = await future.done;
      if (attempt !== this.attempt) {
        return;
      }
      if (content.status === "ok") {
        this.everReady = true;
        this.setState("ready");
      } else {
        this.showFailure(name, content);
      }
    } catch (error) {
      if (attempt === this.attempt) {
        this.showProblem(trans.__("%1 could not be opened", name), String(error), [this.restartChoice()]);
      }
    }
  }

  /**
   * A manager of this panel's own serves all its kernels. One that came with a shared kernel serves that one only: also
   * the kernel of a panel that was closed a moment ago has one, and may be joined before it is seen to be dead.
   */
  private async attachManager(kernelId: string): Promise<void> {
    if (this.managed !== kernelId && !this.ownsManager) {
      this.manager = null;
    }
    this.managed = kernelId;
    this.manager ??= attachWidgetManager(this.options.context, this.rendermime);
    this.ownsManager = (await this.manager).owned;
  }

  private showFailure(name: string, content: KernelMessage.IExecuteReplyMsg["content"]): void {
    const { trans } = this.options;
    if (content.status === "error" && /^No module named '(trt_lab|onnx)/.test(content.evalue)) {
      this.showProblem(
        trans.__("trt-lab is not installed in this kernel"),
        trans.__("Install it in the environment of the kernel “%1” (pip install trt-lab), or choose another kernel.", [
          this.session.kernelDisplayName,
        ]),
        [this.restartChoice(), this.selectChoice()],
      );
      return;
    }
    if (content.status === "error") {
      console.error(content.traceback.join("\n")); // for who reports it; the panel says it in a line
    }
    this.showProblem(trans.__("%1 could not be opened", name), errorText(content), [this.restartChoice()]);
  }

  private showEnd(): void {
    const { trans } = this.options;
    this.showProblem(trans.__("The kernel has ended"), trans.__("The workbench needs a running kernel."), [
      this.restartChoice(),
    ]);
  }

  private showNoKernel(): void {
    const { trans } = this.options;
    this.showProblem(
      trans.__("No kernel"),
      trans.__("The workbench runs in a Python kernel that has trt-lab installed."),
      [this.selectChoice()],
    );
  }

  private restartChoice(): Choice {
    return { label: this.options.trans.__("Restart Kernel"), act: () => void this.restart() };
  }

  private selectChoice(): Choice {
    const { dialogs, trans } = this.options;
    return { label: trans.__("Choose Kernel…"), act: () => void dialogs.selectKernel(this.session) };
  }

  private showProgress(text: string, attempt = ++this.attempt): void {
    this.attempt = attempt;
    this.notice.showProgress(text);
    this.setState("loading");
  }

  private showProblem(title: string, text: string, choices: Choice[]): void {
    this.attempt += 1;
    this.output.model.clear();
    this.notice.showProblem(title, text, choices);
    this.setState("failed");
  }

  private setState(state: "loading" | "ready" | "failed"): void {
    this.node.dataset.state = state;
    this.notice.setHidden(state === "ready");
    this.output.setHidden(state !== "ready");
  }

  private setPath(): void {
    this.node.dataset.path = this.localPath;
  }

  private readonly session: ISessionContext;
  private readonly rendermime: IRenderMimeRegistry;
  private readonly output: SimplifiedOutputArea;
  private readonly notice = new Notice();
  private manager: Promise<AttachedManager> | null = null;
  /** Id of the kernel that `manager` was attached for. */
  private managed = "";
  private ownsManager = false;
  private attempt = 0;
  private everReady = false;
  private startedAgain = false;
}

/** Errors that `trt_lab` raises on purpose: their message says it all. */
const OWN_ERROR =
  /^(TrtLab|Model|Edit|Input|Record|Compare|Usage|Backend|BackendUnavailable|Build|Run|WorkerCrashed|Cancelled)Error$/;

function errorText(content: KernelMessage.IExecuteReplyMsg["content"]): string {
  if (content.status !== "error") {
    return content.status;
  }
  return OWN_ERROR.test(content.ename) ? content.evalue : `${content.ename}: ${content.evalue}`;
}
