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

// Case is what one transaction touches, and what it did: enough to have it do that again elsewhere.
type Case struct {
	Records   []genesis.Record       // what it reads and writes, as it was before it
	Absent    []primitives.AccountID // accounts that it looks at and that were not there
	Tx        *primitives.SignedTransaction
	At        At     // the block behind which it was so
	Timestamp uint64 // of the block that has the transaction, ns since 1970
	// the transaction's, and its receipts' without refunds, each before those of the receipts that
	// it sent
	Outcomes []Deed
	Mocked   []string // host functions that found signatures good then, as a sandbox was told to
	Replace  bool     // of a replay: what else its accounts have is taken away
	Alone    string   // how it ends where there is nothing but this, as far as that differs; empty: it does not
}

// Replayed is what came of a Case that was run again.
type Replayed struct {
	Hash    primitives.Hash // of the transaction: it is another one, on this chain
	Differs string          // how its outcomes do; empty: they don't
}

// Deed is what an outcome says that is the same wherever it comes from: no ids, no price.
type Deed struct {
	Executor primitives.AccountID
	Status   []byte // JSON, as AppendStatus has it; without the id of a receipt that is the result
	Gas      primitives.Gas
	// Nodes is what of Gas was for nodes of the trie, which are as many as the other entries of a
	// chain make them.
	Nodes primitives.Gas
	Logs  []string
}

const receiptStatus = `"SuccessReceiptId"`

// DeedOf takes from an outcome what is a Deed.
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

// DeedsDiffer says where outcomes differ first, but for the nodes of the trie; empty: nowhere.
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

// sameJSON compares what may have been written again in another way.
func sameJSON(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}

// clip shortens what a message says of JSON.
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

// AppendTail appends what comes behind the records of a Case, and ends the object.
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

// appendDiffers appends whether something was the same, and else how it differs.
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
