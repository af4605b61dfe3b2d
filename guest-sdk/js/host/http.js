export { default } from "tollgate:tool/http-client@0.1.0";
