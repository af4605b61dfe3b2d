export { default } from "tollgate:tool/settings@0.1.0";
