import { component } from "tollgate";

export const tool = component({
  id: "wrong",
  tools: [
    { name: "untyped", description: "Says nothing of its arguments.", execute: ({ text }) => text },
    { name: "open", description: "Says little of them.", execute },
  ],
});

/** @param {object} args */
function execute({ text }) {
  return text;
}
