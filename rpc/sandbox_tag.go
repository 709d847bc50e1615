package rpc

import (
	"fmt"
	"strconv"
	"time"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/rpc/limits"
)

// tagTransactions are the parameters of sandbox_tag.
type tagTransactions struct {
	name   string            // name of the tag; empty: the parameter is null
	hashes []primitives.Hash // transactions to tag; nil: transactions that are submitted from now on
}

// maxTagged is the maximum number of transactions in one request.
const maxTagged = 10_000

// sandboxTag is the method sandbox_tag, which nearcore does not have.
var sandboxTag = Method[tagTransactions]{
	Name: "sandbox_tag",
	Doc: `Opens a tag: transactions that any client submits from now on belong to it, until another tag is opened or null
closes it. With tx_hashes these transactions are added to the tag instead. sandbox_profile returns the gas of a tag.`,
	Faults: sandboxFaults, Sandbox: true, Own: true,
	Parse: func(v val) (p tagTransactions, err error) {
		if v.isNull() || v.kind() == kArray && v.len() == 0 {
			return p, nil
		}
		err = readStruct(v, "RpcSandboxTagRequest", field{"name", false, into(&p.name, readSnapshotName)},
			field{"tx_hashes", true, func(v val) (err error) { p.hashes, err = readList(v, readHash); return err }})
		if err == nil && len(p.hashes) > maxTagged {
			err = fmt.Errorf("invalid length %d, expected at most %d hashes", len(p.hashes), maxTagged)
		}
		return p, err
	},
	Handle: func(c *call, b []byte, p *tagTransactions) ([]byte, error) {
		t, err := c.node.Tag(p.name, p.hashes)
		if err != nil {
			return b, sandboxFailure(err, SandboxRefused, "")
		}
		if p.name == "" {
			return append(b, "{}"...), nil
		}
		return appendTag(b, &t), nil
	},
}

func appendTag(b []byte, t *view.Tag) []byte {
	b = view.AppendString(append(b, `{"name":`...), t.Name)
	b = strconv.AppendUint(append(b, `,"omitted":`...), t.Omitted, 10)
	b = strconv.AppendBool(append(b, `,"open":`...), t.Open)
	return append(appendInt(append(b, `,"transactions":`...), t.Transactions), '}')
}

// sandboxTags is the method sandbox_tags, which nearcore does not have.
var sandboxTags = Method[struct{}]{
	Name: "sandbox_tags", Doc: "Returns the tags in the order of their creation.",
	Faults: sandboxFaults, Sandbox: true, Own: true, Parse: parseNothing,
	Handle: func(c *call, b []byte, _ *struct{}) ([]byte, error) {
		list, err := c.node.Tags()
		if err != nil {
			return b, sandboxFailure(err, SandboxRefused, "")
		}
		b = append(b, '[')
		for i := range list {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendTag(b, &list[i])
		}
		return append(b, ']'), nil
	},
}

// namedTag are the parameters of methods that take the name of a tag.
type namedTag struct {
	name string
	view.Simulate
}

func parseNamedTag(v val) (p namedTag, err error) {
	return p, readStruct(v, "RpcSandboxTagName", field{"name", false, into(&p.name, readSnapshotName)})
}

// sandboxDropTag is the method sandbox_drop_tag, which nearcore does not have.
var sandboxDropTag = Method[namedTag]{
	Name: "sandbox_drop_tag", Doc: `Removes a tag.`, Faults: sandboxFaults, Sandbox: true, Own: true, Parse: parseNamedTag,
	Handle: func(c *call, b []byte, p *namedTag) ([]byte, error) {
		if err := c.node.DropTag(p.name); err != nil {
			return b, sandboxFailure(err, SandboxRefused, "")
		}
		return append(b, "{}"...), nil
	},
}

// sandboxProfile is the method sandbox_profile, which nearcore does not have.
var sandboxProfile = Method[namedTag]{
	Name: "sandbox_profile",
	Doc: `Returns the gas of all transactions of a tag: by host function, and by function of each contract, without and
with the functions that it calls. It executes the blocks with these transactions again.`,
	Faults: sandboxFaults, Waits: true, Simulates: true, Sandbox: true, Own: true, Parse: parseNamedTag,
	Handle: func(c *call, b []byte, p *namedTag) ([]byte, error) {
		p.Client = c.x.fairClient()
		if err := c.x.mayWork(c.ctx); err != nil {
			return b, busy(limits.MaxAddressWork)
		}
		out, err := c.node.ProfileTag(c.ctx, p.name, &p.Simulate)
		c.x.worked(time.Duration(p.Took))
		if err != nil {
			return b, sandboxFailure(err, SandboxRefused, "the profile was not made in time")
		}
		if b, err = c.reserve(b, len(out)); err != nil {
			return b, err
		}
		return append(b, out...), nil
	},
}
