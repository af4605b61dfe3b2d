export { default } from "tollgate:tool/content@0.1.0";
