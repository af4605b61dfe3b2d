// The host's side of a call, within a component.
export { default } from "tollgate:tool/call@0.1.0";
