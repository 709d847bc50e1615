import { teardown } from "./global-setup.js";

/** The global teardown of jest: ends the sandbox of the global setup. vitest needs none. */
export default teardown;
