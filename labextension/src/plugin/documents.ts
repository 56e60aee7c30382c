import { IJupyterWidgetRegistry } from "@jupyter-widgets/base";
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from "@jupyterlab/application";
import { IKernelStatusModel, ISessionContextDialogs, SessionContextDialogs, WidgetTracker } from "@jupyterlab/apputils";
import { PageConfig } from "@jupyterlab/coreutils";
import { ABCWidgetFactory, type DocumentRegistry, DocumentWidget } from "@jupyterlab/docregistry";
import { IRenderMimeRegistry } from "@jupyterlab/rendermime";
import { type Contents, IDefaultDrive } from "@jupyterlab/services";
import { ITranslator, nullTranslator } from "@jupyterlab/translation";
import { Token } from "@lumino/coreutils";
import type { Widget } from "@lumino/widgets";
import { modelIcon, recordIcon } from "./icons";
import { FACTORY, ONNX, ONNX_EXTENSION, RECORD, RECORD_EXTENSION } from "./names";
import { type PanelOptions, WorkbenchPanel } from "./panel";
import { UnreadModelFactory, UnreadProvider } from "./unread";

/** A document of the main area that holds a workbench. */
export type WorkbenchDocument = DocumentWidget<WorkbenchPanel>;

/** The open workbenches. */
export type IWorkbenchTracker = WidgetTracker<WorkbenchDocument>;
export const IWorkbenchTracker = new Token<IWorkbenchTracker>("trt-lab:IWorkbenchTracker");

const PROVIDER = "trt-lab-unread";

class WorkbenchFactory extends ABCWidgetFactory<WorkbenchDocument> {
  constructor(
    options: DocumentRegistry.IWidgetFactoryOptions<WorkbenchDocument>,
    private readonly parts: Omit<PanelOptions, "context">,
  ) {
    super(options);
  }

  protected override createNewWidget(context: DocumentRegistry.IContext<DocumentRegistry.IModel>): WorkbenchDocument {
    const content = new WorkbenchPanel({ ...this.parts, context });
    const widget = new DocumentWidget({ content, context });
    widget.addClass("trt-lab-Document");
    widget.title.icon = context.path.endsWith(RECORD_EXTENSION) ? recordIcon : modelIcon;
    widget.toolbar.hide(); // the workbench has its own; the kernel's state is in the status bar
    return widget;
  }
}

/** Opens `.onnx` files and `.trtlab` records as workbenches. */
export const documents: JupyterFrontEndPlugin<IWorkbenchTracker> = {
  id: "trt-lab:documents",
  description: "Opens ONNX models and trt-lab records in the workbench.",
  autoStart: true,
  provides: IWorkbenchTracker,
  requires: [IRenderMimeRegistry, IDefaultDrive],
  // The widget registry is not used, but its plugin must run first.
  optional: [ISessionContextDialogs, IKernelStatusModel, ITranslator, IJupyterWidgetRegistry],
  activate: (
    app: JupyterFrontEnd,
    rendermime: IRenderMimeRegistry,
    drive: Contents.IDrive,
    dialogs: ISessionContextDialogs | null,
    kernelStatus: IKernelStatusModel | null,
    translator: ITranslator | null,
  ) => {
    const { docRegistry } = app;
    const language = translator ?? nullTranslator;
    addFileTypes(docRegistry);
    drive.contentProviderRegistry?.register(PROVIDER, new UnreadProvider(drive));
    docRegistry.addModelFactory(new UnreadModelFactory());

    const factory = new WorkbenchFactory(
      {
        name: FACTORY,
        modelName: "trt-lab-unread",
        contentProviderId: drive.contentProviderRegistry ? PROVIDER : undefined,
        fileTypes: [ONNX, RECORD],
        defaultFor: [ONNX, RECORD],
        readOnly: true,
        preferKernel: true,
        canStartKernel: true,
        autoStartDefault: true,
        shutdownOnClose: true,
        translator: language,
      },
      {
        rendermime,
        dialogs: dialogs ?? new SessionContextDialogs({ translator: language }),
        sessions: app.serviceManager.sessions,
        serverRoot: PageConfig.getOption("serverRoot"),
        trans: language.load("trt-lab"),
      },
    );
    const tracker = new WidgetTracker<WorkbenchDocument>({ namespace: "trt-lab" });
    factory.widgetCreated.connect((_, widget) => {
      widget.context.pathChanged.connect(() => void tracker.save(widget));
      void tracker.add(widget);
    });
    docRegistry.addWidgetFactory(factory);
    kernelStatus?.addSessionProvider((widget: Widget | null) =>
      widget && tracker.has(widget) ? (widget as WorkbenchDocument).context.sessionContext : null,
    );
    return tracker;
  },
};

function addFileTypes(registry: DocumentRegistry): void {
  registry.addFileType({
    name: ONNX,
    displayName: "ONNX Model",
    extensions: [ONNX_EXTENSION],
    mimeTypes: ["application/onnx"],
    fileFormat: "base64",
    contentType: "file",
    icon: modelIcon,
  });
  registry.addFileType({
    name: RECORD,
    displayName: "TRT Lab Record",
    extensions: [RECORD_EXTENSION],
    mimeTypes: ["application/zip"],
    fileFormat: "base64",
    contentType: "file",
    icon: recordIcon,
  });
}
