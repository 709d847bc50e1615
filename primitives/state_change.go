package primitives

// CauseKind is the tag of a StateChangeCause.
type CauseKind byte

// The causes that are written (nearcore core/primitives/src/types.rs StateChangeCause).
const (
	CauseInitialState                   CauseKind = 1
	CauseTransactionProcessing          CauseKind = 2
	CauseActionReceiptProcessingStarted CauseKind = 3
	CauseActionReceiptGasReward         CauseKind = 4
	CauseReceiptProcessing              CauseKind = 5
	CausePostponedReceipt               CauseKind = 6
	CauseUpdatedDelayedReceipts         CauseKind = 7
	CauseValidatorAccountsUpdate        CauseKind = 8
	CauseMigration                      CauseKind = 9
	CauseBandwidthSchedulerStateUpdate  CauseKind = 11
)

// StateChangeCause is why a key of the trie changed.
type StateChangeCause struct {
	Kind CauseKind
	Hash Hash // hash of the transaction or receipt, if the kind has one
}

// HasHash returns whether the cause is a transaction or a receipt.
func (c *StateChangeCause) HasHash() bool {
	return c.Kind >= CauseTransactionProcessing && c.Kind <= CausePostponedReceipt
}

// StateChange is one write to a key; a nil Value removes it.
type StateChange struct {
	Cause StateChangeCause
	Value []byte
}

// KeyChanges are the writes to one key of the trie in a chunk, oldest first. The last write is the
// value in the new state.
type KeyChanges struct {
	Key     []byte
	Changes []StateChange
}

// Last returns the value after the chunk, nil if the key is removed.
func (k *KeyChanges) Last() []byte { return k.Changes[len(k.Changes)-1].Value }
