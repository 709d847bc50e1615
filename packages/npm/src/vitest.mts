export * from "./vitest.js";
