/**
 * Documents whose content is never fetched and never written.
 *
 * A model may be gigabytes. JupyterLab would load it whole into the page, and copy it once more as a checkpoint
 * because the file is writable. The kernel reads the file itself; the page needs only its name.
 */
import { DocumentModel, type DocumentRegistry, TextModelFactory } from "@jupyterlab/docregistry";
import type { Contents } from "@jupyterlab/services";
import type { PartialJSONValue } from "@lumino/coreutils";

const READ_ONLY = "TRT Lab does not write the file it shows.";

/** Serves files and folders without their content, and as not writable. */
export class UnreadProvider {
  constructor(private readonly drive: Contents.IDrive) {}

  async get(localPath: string): Promise<Contents.IModel> {
    return { ...(await this.drive.get(localPath, { content: false })), writable: false };
  }

  save(): Promise<Contents.IModel> {
    return Promise.reject(new Error(READ_ONLY));
  }
}

/** A document model that holds nothing. Asked for its content it fails, so that no save can empty the file. */
export class UnreadModel extends DocumentModel {
  override get dirty(): boolean {
    return false;
  }

  override set dirty(_: boolean) {
    // Widgets mark their document dirty; there is nothing to save here.
  }

  override get defaultKernelLanguage(): string {
    return "python";
  }

  /** Widget states saved in the document (the widget manager asks): none. */
  getMetadata(): undefined {
    return undefined;
  }

  override toString(): string {
    throw new Error(READ_ONLY);
  }

  override toJSON(): PartialJSONValue {
    throw new Error(READ_ONLY);
  }
}

export class UnreadModelFactory extends TextModelFactory {
  override get name(): string {
    return "trt-lab-unread";
  }

  /** null: JupyterLab then asks for no content, from whatever drive. */
  override get fileFormat(): Contents.FileFormat {
    return null;
  }

  override get collaborative(): boolean {
    return false;
  }

  override createNew(options?: Parameters<TextModelFactory["createNew"]>[0]): DocumentRegistry.ICodeModel {
    return new UnreadModel(options);
  }

  override preferredLanguage(): string {
    return "python";
  }
}
