package genesis

import (
	"encoding/base64"
	"fmt"
	"strconv"

	"github.com/troupe-chain/troupe/primitives"
)

// Receipts in the raw form of records (serde of nearcore's Receipt, not the RPC's ReceiptView).

// member is a field of a struct that cursor.members reads.
type member struct {
	name     string
	optional bool // may be missing
	read     func()
}

func field(name string, read func()) member  { return member{name: name, read: read} }
func option(name string, read func()) member { return member{name: name, optional: true, read: read} }

// members reads an object with these fields, and ignores all other fields.
func (c *cursor) members(ms ...member) {
	seen := uint(0)
	c.object(func(key []byte) bool {
		for i := range ms {
			if ms[i].name == string(key) {
				c.field(ms[i].name).once(&seen, i)
				ms[i].read()
				return true
			}
		}
		return false
	})
	for i := range ms {
		if !ms[i].optional && seen&(1<<i) == 0 && c.err == nil {
			c.failf("missing field `%s`", ms[i].name)
		}
	}
}

// set returns a function that stores the result of get in *at.
func set[T any](at *T, get func() T) func() { return func() { *at = get() } }

// setUint returns a function that reads an integer into *at.
func setUint[T ~uint16 | ~uint64](c *cursor, at *T) func() {
	bits := 64
	if uint64(^T(0)) == 1<<16-1 {
		bits = 16
	}
	return func() { *at = T(c.uint(bits)) }
}

func (c *cursor) receipt() *primitives.Receipt {
	x := new(primitives.Receipt)
	c.members(
		field("predecessor_id", set(&x.PredecessorID, c.account)),
		field("receiver_id", set(&x.ReceiverID, c.account)),
		field("receipt_id", set(&x.ID, c.hash)),
		field("receipt", func() { x.Body = c.receiptBody() }),
	)
	return x
}

func (c *cursor) receiptBody() (body primitives.ReceiptBody) {
	c.variant("ReceiptEnum", func(name string, bare bool) bool {
		if bare {
			return false
		}
		switch name {
		case "Action":
			body = c.actionReceipt(false, false)
		case "ActionV2":
			body = c.actionReceipt(true, false)
		case "PromiseYield":
			body = c.actionReceipt(false, true)
		case "PromiseYieldV2":
			body = c.actionReceipt(true, true)
		case "Data":
			body = c.dataReceipt(false)
		case "PromiseResume":
			body = c.dataReceipt(true)
		case "GlobalContractDistribution":
			body = c.distribution()
		default:
			return false
		}
		return true
	})
	return body
}

func (c *cursor) actionReceipt(v2, yield bool) *primitives.ActionReceipt {
	a := &primitives.ActionReceipt{V2: v2, Yield: yield}
	ms := []member{
		field("signer_id", set(&a.SignerID, c.account)),
		field("signer_public_key", set(&a.SignerPublicKey, c.key)),
		field("gas_price", set(&a.GasPrice, c.balance)),
		field("output_data_receivers", func() {
			c.array(func() {
				var d primitives.DataReceiver
				c.members(field("data_id", set(&d.DataID, c.hash)), field("receiver_id", set(&d.ReceiverID, c.account)))
				a.OutputDataReceivers = append(a.OutputDataReceivers, d)
			})
		}),
		field("input_data_ids", func() { c.array(func() { a.InputDataIDs = append(a.InputDataIDs, c.hash()) }) }),
		field("actions", set(&a.Actions, c.actions)),
	}
	if v2 {
		ms = append(ms, option("refund_to", func() {
			if !c.null() {
				a.RefundTo = c.account()
			}
		}))
	}
	c.members(ms...)
	return a
}

func (c *cursor) dataReceipt(resume bool) *primitives.DataReceipt {
	d := &primitives.DataReceipt{Resume: resume}
	c.members(field("data_id", set(&d.DataID, c.hash)), option("data", func() {
		if !c.null() {
			d.Data = c.base64()
		}
	}))
	return d
}

func (c *cursor) distribution() *primitives.GlobalContractDistribution {
	g := new(primitives.GlobalContractDistribution)
	c.variant("GlobalContractDistributionReceipt", func(name string, bare bool) bool {
		if bare || name != "V1" && name != "V2" {
			return false
		}
		g.V2 = name == "V2"
		ms := []member{
			field("id", set(&g.ID, c.globalContract)),
			field("target_shard", setUint(c, &g.TargetShard)),
			field("already_delivered_shards", func() {
				c.array(func() { g.AlreadyDelivered = append(g.AlreadyDelivered, primitives.ShardID(c.uint(64))) })
			}),
			field("code", set(&g.Code, c.base64)),
		}
		if g.V2 {
			ms = append(ms, field("nonce", setUint(c, &g.Nonce)))
		}
		c.members(ms...)
		return true
	})
	return g
}

func (c *cursor) globalContract() (id primitives.GlobalContractID) {
	c.variant("GlobalContractIdentifier", func(name string, bare bool) bool {
		switch {
		case bare:
			return false
		case name == "hash":
			id.Hash = c.hash()
		case name == "account_id":
			id.Account = c.account()
		default:
			return false
		}
		return true
	})
	return id
}

// Encoding of receipts as records.

func appendText(b []byte, name, value string) []byte {
	return primitives.AppendJSONString(append(b, name...), value)
}

func appendUint(b []byte, name string, v uint64) []byte {
	return strconv.AppendUint(append(b, name...), v, 10)
}

func appendBalance(b []byte, v primitives.Balance) []byte {
	return append(v.AppendText(append(b, '"')), '"')
}

func appendAmount(b []byte, name string, v primitives.Balance) []byte {
	return appendBalance(append(b, name...), v)
}

func appendBase64(b []byte, name string, data []byte) []byte {
	b = base64.StdEncoding.AppendEncode(append(append(b, name...), '"'), data)
	return append(b, '"')
}

// appendData is appendBase64 for an option.
func appendData(b []byte, name string, data []byte) []byte {
	if data == nil {
		return append(append(b, name...), "null"...)
	}
	return appendBase64(b, name, data)
}

// appendList appends an array, each item by f.
func appendList[T any](b []byte, name string, items []T, f func([]byte, T) []byte) []byte {
	b = append(append(b, name...), '[')
	for i, x := range items {
		if i > 0 {
			b = append(b, ',')
		}
		b = f(b, x)
	}
	return append(b, ']')
}

func appendReceipt(b []byte, x *primitives.Receipt) []byte {
	b = appendText(b, `{"predecessor_id":`, string(x.PredecessorID))
	b = appendText(b, `,"receiver_id":`, string(x.ReceiverID))
	b = appendText(b, `,"receipt_id":`, x.ID.String())
	b = append(b, `,"receipt":{"`...)
	switch body := x.Body.(type) {
	case *primitives.ActionReceipt:
		b = appendActionReceipt(b, body)
	case *primitives.DataReceipt:
		name := `Data":`
		if body.Resume {
			name = `PromiseResume":`
		}
		b = appendText(append(b, name...), `{"data_id":`, body.DataID.String())
		b = append(appendData(b, `,"data":`, body.Data), '}')
	case *primitives.GlobalContractDistribution:
		b = appendDistribution(b, body)
	default:
		panic(fmt.Sprintf("genesis: no JSON form of receipt %T", body))
	}
	return append(b, "}}"...)
}

func appendActionReceipt(b []byte, a *primitives.ActionReceipt) []byte {
	name := "Action"
	if a.Yield {
		name = "PromiseYield"
	}
	b = append(b, name...)
	if a.V2 {
		b = append(b, "V2"...)
	}
	b = appendText(b, `":{"signer_id":`, string(a.SignerID))
	if a.V2 && a.RefundTo == "" {
		b = append(b, `,"refund_to":null`...)
	} else if a.V2 {
		b = appendText(b, `,"refund_to":`, string(a.RefundTo))
	}
	b = appendText(b, `,"signer_public_key":`, a.SignerPublicKey.String())
	b = appendAmount(b, `,"gas_price":`, a.GasPrice)
	b = appendList(b, `,"output_data_receivers":`, a.OutputDataReceivers, func(b []byte, d primitives.DataReceiver) []byte {
		b = appendText(b, `{"data_id":`, d.DataID.String())
		return append(appendText(b, `,"receiver_id":`, string(d.ReceiverID)), '}')
	})
	b = appendList(b, `,"input_data_ids":`, a.InputDataIDs, func(b []byte, h primitives.Hash) []byte {
		return primitives.AppendJSONString(b, h.String())
	})
	return append(appendList(b, `,"actions":`, a.Actions, appendAction), '}')
}

func appendDistribution(b []byte, g *primitives.GlobalContractDistribution) []byte {
	version := `{"V1":`
	if g.V2 {
		version = `{"V2":`
	}
	b = append(append(b, `GlobalContractDistribution":`...), version...)
	b = g.ID.AppendJSON(append(b, `{"id":`...))
	b = appendUint(b, `,"target_shard":`, uint64(g.TargetShard))
	b = appendList(b, `,"already_delivered_shards":`, g.AlreadyDelivered, func(b []byte, s primitives.ShardID) []byte {
		return strconv.AppendUint(b, uint64(s), 10)
	})
	b = appendBase64(b, `,"code":`, g.Code)
	if g.V2 {
		b = appendUint(b, `,"nonce":`, g.Nonce)
	}
	return append(b, "}}"...)
}
