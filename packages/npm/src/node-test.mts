export * from "./node-test.js";
