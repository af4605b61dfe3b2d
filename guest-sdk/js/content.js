// Images, files and links that belong to a call's result.
import content from "#content";
import { failed } from "./answer.js";

export const attach = (mimeType, data) => attached(() => content.attach(mimeType, data, null));

export const attachFile = (uri, data, mimeType = "") => attached(() => content.attach(mimeType, data, uri));

export const attachLink = (uri, name, description = null) => attached(() => content.link(uri, name, description, null));

function attached(attach) {
  try {
    attach();
  } catch (error) {
    throw error?.payload === undefined ? error : failed(`It is not attached: ${error.payload}`);
  }
}
