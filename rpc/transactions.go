package rpc

import (
	"errors"
	"strconv"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// maxMethodPrefix is the maximum length of the filter by method name, in bytes. No method has a
// longer name.
const maxMethodPrefix = 256

// defaultListed is the number of listed transactions if the request has no limit.
const defaultListed = 50

var transactionList = Method[view.ListQuery]{
	Name: "troupe_transactions",
	Doc: `Returns transactions of the current chain, newest first. The node reads its blocks backwards for this. Filters: account_id
(signer, receiver, executor of a receipt, or named by an event of NEP-141, NEP-171 or NEP-245; tokens then has the
contracts with such events), method_prefix, failed_only (the transaction or one of its receipts failed). A request
reads at most 2,000 blocks and 20,000 transactions and outcomes, so it may list fewer than limit; to continue, send next
as before, with the same filters. With after_height only blocks above it are read. blocks is how many of the newest
blocks the reply describes. A reply may repeat the last transactions of the one before.`,
	Faults: []*Fault{NotSyncedYet}, Heavy: true,
	Own: true, Parse: parseListQuery,
	Handle: func(c *call, b []byte, q *view.ListQuery) ([]byte, error) {
		list, err := c.node.Transactions(c.ctx, q)
		if err != nil {
			return b, headFault(err)
		}
		return view.AppendTransactionList(b, list), nil
	},
}

func parseListQuery(v val) (q view.ListQuery, err error) {
	if v.kind() != kNull {
		if err = needObject(v, "TransactionsRequest"); err != nil {
			return q, err
		}
	}
	limit, blocks := uint64(defaultListed), uint64(0)
	if v.kind() != kNull {
		err = readFields(v, []field{
			{"account_id", true, into(&q.Account, readAccountID)},
			{"method_prefix", true, into(&q.Method, readText)},
			{"failed_only", true, into(&q.Failed, readBool)},
			{"limit", true, into(&limit, readUint64)},
			{"blocks", true, into(&blocks, readUint64)},
			{"after_height", true, into((*uint64)(&q.After), readUint64)},
			{"before", true, func(v val) error {
				q.Before = &view.ListPosition{Index: view.WholeBlock}
				return readStruct(v, "ListPosition", field{"height", false, into((*uint64)(&q.Before.Height), readUint64)},
					field{"index", true, func(v val) error {
						n, err := readUint64(v)
						q.Before.Index = int(min(n, view.WholeBlock))
						return err
					}})
			}},
		})
	}
	switch {
	case err != nil:
	case limit > view.MaxListed || blocks > view.MaxListed:
		err = errors.New("limit and blocks may be at most " + strconv.Itoa(view.MaxListed))
	case len(q.Method) > maxMethodPrefix:
		err = errors.New("method_prefix may have at most " + strconv.Itoa(maxMethodPrefix) + " bytes")
	}
	q.Limit, q.Blocks = int(limit), int(blocks)
	return q, err
}

// accountQuery are the parameters of troupe_accounts.
type accountQuery struct {
	prefix, after string
	limit         uint64
}

// maxAccounts is the maximum number of listed accounts. defaultAccounts is the number of listed
// accounts if the request has no limit.
const (
	maxAccounts     = 200
	defaultAccounts = 20
)

var accountList = Method[accountQuery]{
	Name: "troupe_accounts",
	Doc: `Returns the accounts whose names begin with a prefix, in the order of their bytes, as of the head. To continue, send the
last one as after. Accounts of shards that the node does not track are missing; on a fork, so are those that it has not
written.`,
	Faults: []*Fault{NotSyncedYet}, Heavy: true,
	Own: true, Parse: func(v val) (q accountQuery, err error) {
		q.limit = defaultAccounts
		if err = needObject(v, "AccountsRequest"); err != nil {
			return q, err
		}
		err = readFields(v, []field{{"prefix", false, into(&q.prefix, readText)},
			{"after", true, into(&q.after, readText)}, {"limit", true, into(&q.limit, readUint64)}})
		switch {
		case err != nil:
		case q.limit == 0 || q.limit > maxAccounts:
			err = errors.New("limit must be 1 to " + strconv.Itoa(maxAccounts))
		case len(q.prefix) > primitives.MaxAccountIDLen || len(q.after) > primitives.MaxAccountIDLen:
			err = errors.New("prefix and after may have at most " + strconv.Itoa(primitives.MaxAccountIDLen) + " characters")
		}
		return q, err
	},
	Handle: func(c *call, b []byte, q *accountQuery) ([]byte, error) {
		ids, more, err := c.node.Accounts(c.ctx, q.prefix, q.after, int(q.limit))
		if err != nil {
			return b, headFault(err)
		}
		b = append(b, `{"account_ids":[`...)
		for i := range ids {
			if i > 0 {
				b = append(b, ',')
			}
			b = view.AppendAccountID(b, ids[i])
		}
		return append(strconv.AppendBool(append(b, `],"more":`...), more), '}'), nil
	},
}

// headFault maps an error of a method that reads only the head's chain. Such a request names no
// block, so ErrUnknownBlock cannot occur.
func headFault(err error) error {
	if e, ok := lookup(err); ok && e.Kind == view.ErrNotSynced {
		fault, _ := blockFault(err, "BLOCK")
		return fault
	}
	return internal(reachedLimits, err)
}
