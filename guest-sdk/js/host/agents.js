export { default } from "tollgate:tool/agents@0.1.0";
