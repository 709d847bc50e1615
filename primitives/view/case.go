package view

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"
)

// Case is the dump of one transaction: the state that it touches and its outcomes, enough to replay
// it on another chain.
type Case struct {
	// state entries that the transaction reads or writes, as they were before the transaction
	Records   []genesis.Record
	Absent    []primitives.AccountID // accounts that the transaction reads and that did not exist
	Tx        *primitives.SignedTransaction
	At        At     // the block after which the state was dumped
	Timestamp uint64 // time of the block with the transaction, in ns since 1970
	// The outcomes of the transaction and of its receipts without refunds, each outcome before the
	// outcomes of the receipts that its execution sent.
	Outcomes []Deed
	Mocked   []string // host functions whose signature checks a sandbox mocked
	Replace  bool     // true: a replay removes all other state of the accounts in Records
	Alone    string   // how the outcomes differ if only Records exist; empty: they are equal
}

// Replayed is the result of replaying a Case.
type Replayed struct {
	Hash    primitives.Hash // hash of the replayed transaction, which is not the hash of the original
	Differs string          // how the outcomes of the replay differ from the original outcomes; empty: they are equal
}

// Deed is the part of an outcome that does not depend on the chain: no ids, no prices.
type Deed struct {
	Executor primitives.AccountID
	Status   []byte // JSON from AppendStatus, without the id of a resulting receipt
	Gas      primitives.Gas
	// Nodes is the part of Gas that was burnt for trie nodes. Their number depends on the chain's
	// other entries.
	Nodes primitives.Gas
	Logs  []string
}

const receiptStatus = `"SuccessReceiptId"`

// DeedOf returns the Deed of an outcome.
func DeedOf(o *primitives.Outcome) Deed {
	d := Deed{Executor: o.ExecutorID, Gas: o.GasBurnt, Logs: o.Logs}
	if o.Status.Kind == primitives.StatusSuccessReceiptID {
		d.Status = []byte(receiptStatus)
	} else {
		d.Status = AppendStatus(nil, &o.Status)
	}
	for i := range o.Metadata.Profile {
		if c := &o.Metadata.Profile[i]; c.Cost == "TOUCHING_TRIE_NODE" || c.Cost == "READ_CACHED_TRIE_NODE" {
			d.Nodes += c.Gas
		}
	}
	return d
}

// DeedsDiffer describes the first difference between outcomes, ignoring gas for trie nodes; empty:
// there is none.
func DeedsDiffer(was, now []Deed) string {
	for i := range min(len(was), len(now)) {
		a, b := &was[i], &now[i]
		what := ""
		switch {
		case a.Executor != b.Executor:
			what = fmt.Sprintf("is of %s, it was of %s", b.Executor, a.Executor)
		case !sameJSON(a.Status, b.Status):
			what = fmt.Sprintf("is %s, it was %s", clip(b.Status), clip(a.Status))
		case !slices.Equal(a.Logs, b.Logs):
			what = "has other logs"
		case a.Gas-a.Nodes != b.Gas-b.Nodes:
			what = fmt.Sprintf("burns %d gas without nodes of the trie, it burnt %d", b.Gas-b.Nodes, a.Gas-a.Nodes)
		default:
			continue
		}
		return fmt.Sprintf("outcome %d, of %s: it %s", i, a.Executor, what)
	}
	if len(was) != len(now) {
		return fmt.Sprintf("there are %d outcomes, there were %d", len(now), len(was))
	}
	return ""
}

// sameJSON returns whether two texts are the same JSON value.
func sameJSON(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}

// clip shortens JSON for a message.
func clip(b []byte) []byte {
	const shown = 200
	if len(b) > shown {
		return append(bytes.Clone(b[:shown]), "..."...)
	}
	return b
}

// AppendJSON appends the object.
func (d *Deed) AppendJSON(b []byte) []byte {
	b = AppendString(append(b, `{"executor_id":`...), string(d.Executor))
	b = strconv.AppendUint(append(b, `,"gas_burnt":`...), uint64(d.Gas), 10)
	b = strconv.AppendUint(append(b, `,"gas_trie_nodes":`...), uint64(d.Nodes), 10)
	b = appendStrings(append(b, `,"logs":`...), d.Logs)
	return append(append(append(b, `,"status":`...), d.Status...), '}')
}

// AppendTail appends the members after the records of a Case, and ends the object.
func (c *Case) AppendTail(b []byte) []byte {
	b = append(b, `"absent":[`...)
	for i, a := range c.Absent {
		if i > 0 {
			b = append(b, ',')
		}
		b = AppendString(b, string(a))
	}
	b = AppendBase64(append(b, `],"signed_tx_base64":`...), c.Tx.AppendBorsh(nil))
	b = strconv.AppendUint(append(b, `,"timestamp_nanosec":"`...), c.Timestamp, 10)
	b = append(b, `","outcomes":[`...)
	for i := range c.Outcomes {
		if i > 0 {
			b = append(b, ',')
		}
		b = c.Outcomes[i].AppendJSON(b)
	}
	b = append(b, "],"...)
	if len(c.Mocked) > 0 {
		b = append(appendStrings(append(b, `"mocked_verification":`...), c.Mocked), ',')
	}
	b = appendDiffers(b, c.Alone)
	return c.At.AppendMembers(append(b, ','))
}

// appendDiffers appends the members "same" and, unless how is empty, "differs": how the outcomes
// differ.
func appendDiffers(b []byte, how string) []byte {
	b = strconv.AppendBool(append(b, `"same":`...), how == "")
	if how != "" {
		b = AppendString(append(b, `,"differs":`...), how)
	}
	return b
}

// AppendJSON appends the object.
func (r *Replayed) AppendJSON(b []byte) []byte {
	b = AppendHash(append(b, `{"tx_hash":`...), &r.Hash)
	return append(appendDiffers(append(b, ','), r.Differs), '}')
}
