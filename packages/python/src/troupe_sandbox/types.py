"""The shapes of what the node returns. docs/rpc has a page for each method, and GET /openapi.json the same as schema."""

from __future__ import annotations

from typing import Any, Dict, List, Literal, Optional, TypedDict, Union

#: yoctoNEAR: an int or decimal text.
Amount = Union[int, str]
Finality = Literal["optimistic", "near-final", "final"]
WaitUntil = Literal["NONE", "INCLUDED", "EXECUTED_OPTIMISTIC", "INCLUDED_FINAL", "EXECUTED", "FINAL"]
ProductionMode = Literal["instant", "interval", "manual"]
TopicName = Literal["blocks", "transactions", "outcomes", "events", "messages"]
#: {"SuccessValue": base64}, {"SuccessReceiptId": id}, {"Failure": error}, or a text: it has not run.
ExecutionStatus = Union[Dict[str, Any], str]
#: A record as in genesis.json; amounts are decimal text. None in place of a value removes the entry.
StateRecord = Dict[str, Any]


class Block(TypedDict):
    height: int
    hash: str


class Reorg(Block):
    #: The blocks that are no longer in the chain.
    reverted: List[Block]


class Snapshot(Block):
    id: str


class WorldInfo(Block):
    id: str
    path: str
    addr: Optional[str]
    parent: Optional[str]
    begin: Block
    bytes: int


class Clock(TypedDict):
    frozen: bool
    timestamp_nanosec: str
    next_timestamp_nanosec: str
    interval_nanosec: str


class Production(TypedDict):
    mode: ProductionMode
    quiet: bool
    interval_nanosec: str


class Tag(TypedDict):
    name: str
    open: bool
    transactions: int
    omitted: int


class ProfiledFunction(TypedDict):
    account_id: str
    name: str
    calls: int
    gas: int
    gas_total: int


class ProfiledHostFunction(TypedDict):
    name: str
    calls: int
    gas: int


class Profile(TypedDict):
    """Gas of the transactions of a tag."""

    transactions: int
    #: Transactions that have not run yet.
    waiting: int
    #: Transactions that are not in the chain.
    unknown: int
    calls: int
    gas_burnt: int
    gas_calls: int
    functions: List[ProfiledFunction]
    host_functions: List[ProfiledHostFunction]


class MockVerification(TypedDict):
    ed25519_verify: bool
    p256_verify: bool
    ecrecover: Optional[str]


class AccountView(TypedDict):
    """An account, as `query` returns it."""

    amount: str
    locked: str
    code_hash: str
    storage_usage: int
    block_height: int
    block_hash: str


class OutcomeValue(TypedDict):
    executor_id: str
    gas_burnt: int
    tokens_burnt: str
    logs: List[str]
    receipt_ids: List[str]
    status: ExecutionStatus


class Outcome(TypedDict):
    id: str
    block_hash: str
    outcome: OutcomeValue


class _Transaction(TypedDict):
    hash: str
    signer_id: str
    receiver_id: str
    nonce: int
    actions: List[Any]


class TransactionStatus(TypedDict):
    """The status of a transaction, as `tx_status` returns it. Of one that has not run, only the first field is there."""

    final_execution_status: WaitUntil
    status: ExecutionStatus
    transaction: _Transaction
    transaction_outcome: Outcome
    receipts_outcome: List[Outcome]
    receipts: List[Any]


class SimulationInfo(TypedDict):
    block_hash: str
    block_height: int
    blocks: int
    complete: bool


class Simulation(TransactionStatus):
    simulation: SimulationInfo


class HostCall(TypedDict):
    """A call of a host function. More fields depend on the function."""

    name: str
    gas: int
    #: Gas that the contract call had burnt before.
    at: int


class TracedCall(TypedDict):
    account_id: str
    method_name: str
    action: int
    code_hash: str
    deposit: str
    gas_burnt: int
    gas_prepaid: int
    gas_used: int
    gas_wasm: int
    host_calls: List[HostCall]
    host_calls_omitted: int


class TracedOutcome(TypedDict):
    id: str
    depth: int
    block_hash: str
    predecessor_id: str
    executor_id: str
    actions: List[str]
    calls: List[TracedCall]
    gas_burnt: int
    tokens_burnt: str
    logs: List[str]
    status: ExecutionStatus


class _Trace(TypedDict):
    transaction_hash: str
    signer_id: str
    receiver_id: str
    block_hash: str
    simulated: bool
    complete: bool
    status: ExecutionStatus
    gas_burnt: int
    tokens_burnt: str
    outcomes: List[TracedOutcome]


class Trace(_Trace, total=False):
    """The receipts of a transaction, with the host functions of each contract call."""

    #: With profile=True: gas by function, for speedscope.app.
    profile: Dict[str, Any]


class _TransactionDump(TypedDict):
    signed_tx_base64: str
    records: List[StateRecord]
    outcomes: List[Any]
    absent: List[str]
    timestamp_nanosec: str
    hash: str
    height: int
    same: bool


class TransactionDump(_TransactionDump, total=False):
    """Everything that one transaction reads and writes."""

    differs: str
    mocked_verification: List[str]


class _Replay(TypedDict):
    tx_hash: str
    same: bool


class Replay(_Replay, total=False):
    differs: str


class _Cursor(TypedDict):
    block_hash: str
    height: int


class Cursor(_Cursor, total=False):
    """A position in the chain. A subscription with `after` continues behind it. Pass it back as it came."""


class _Message(TypedDict):
    cursor: Cursor


class Message(_Message, total=False):
    """A message of a subscription. Which fields it has depends on the topic."""

    #: Topic blocks: the block as the method `block` returns it.
    block: Dict[str, Any]
    #: Topic transactions: a status that the transaction has reached.
    transaction: Dict[str, Any]
    #: Topic outcomes: an outcome with its proof.
    outcome: Dict[str, Any]
    #: Topic events: a NEP-297 event.
    event: Dict[str, Any]
    #: Topic messages: the block as nearcore's indexer framework streams it.
    message: Dict[str, Any]
    #: A reorganisation has dropped this block: everything that was sent about it is void.
    reverted: Dict[str, Any]
