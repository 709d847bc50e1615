/** What a SandboxError is about. */
export type SandboxErrorKind =
  /** No binary of troupe for this platform, and none in TROUPE_BIN or PATH. */
  | "NoBinary"
  /** The port that was asked for is in use. */
  | "PortTaken"
  /** The node ended before it was ready, or was not ready in time. `lines` has its last lines. */
  | "StartFailed"
  /** The node of this chain has ended, or does not answer at its address. `lines` has its last lines. */
  | "NodeEnded"
  /** The world was ended or dropped, or ended because no request came for long. */
  | "WorldEnded"
  /** This version of Node has no WebSocket, and none was passed. */
  | "NoWebSocket"
  /** A subscription ended. `reason` has the node's reason. */
  | "SubscriptionClosed"
  /** An HTTP response is not the reply of a NEAR node. */
  | "BadReply";

/** An error of the sandbox itself, as opposed to an RpcError, which is the node's reply. */
export class SandboxError extends Error {
  override readonly name = "SandboxError";
  readonly kind: SandboxErrorKind;
  /** The last lines that the node wrote, for StartFailed and NodeEnded. */
  readonly lines: readonly string[];
  /** The reason that the node gave, for SubscriptionClosed. */
  readonly reason: string | undefined;

  constructor(
    kind: SandboxErrorKind,
    message: string,
    more: { lines?: readonly string[]; reason?: string; cause?: unknown } = {},
  ) {
    super(message, more.cause === undefined ? undefined : { cause: more.cause });
    this.kind = kind;
    this.lines = more.lines ?? [];
    this.reason = more.reason;
  }
}

/** The error object of a JSON-RPC reply of a NEAR node. */
export interface RpcErrorObject {
  name?: string;
  cause?: { name?: string; info?: Record<string, unknown> | null };
  code?: number;
  message?: string;
  data?: unknown;
}

/** A refusal of the node. `cause.name` identifies it: SANDBOX_REFUSED, UNKNOWN_ACCOUNT, and so on. */
export class RpcError extends Error {
  override readonly name = "RpcError";
  /** The method that was called. */
  readonly method: string;
  /** HANDLER_ERROR, REQUEST_VALIDATION_ERROR or INTERNAL_ERROR. */
  readonly type: string;
  readonly code: number;
  override readonly cause: { readonly name: string; readonly info: Readonly<Record<string, unknown>> };
  /** The field `data` of the reply: a text, or for a failed transaction an object. */
  readonly data: unknown;

  constructor(method: string, error: RpcErrorObject) {
    const cause = { name: error.cause?.name ?? error.name ?? "UNKNOWN", info: error.cause?.info ?? {} };
    super(`${method}: ${cause.name}${describe(cause.info, error)}`);
    this.method = method;
    this.type = error.name ?? "UNKNOWN";
    this.code = error.code ?? 0;
    this.cause = cause;
    this.data = error.data;
  }
}

function describe(info: Record<string, unknown>, error: RpcErrorObject): string {
  for (const text of [info["reason"], info["error_message"], error.data]) {
    if (typeof text === "string" && text !== "") return `: ${text}`;
  }
  if (error.data !== undefined && error.data !== null) return `: ${JSON.stringify(error.data)}`;
  return error.message ? `: ${error.message}` : "";
}
