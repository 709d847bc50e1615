package refmodel

import (
	"github.com/troupe-chain/troupe/primitives"
)

// Chunk is a chunk while the model executes it, with the results so far.
type Chunk struct {
	*World
	Height   primitives.Height
	Programs map[string]*Program // programs by the arguments of the call of method run that executes them

	Refusals []*primitives.InvalidTxError // error of each transaction; nil: the transaction was converted to a receipt
	Outcomes []Outcome                    // outcomes of the receipts in the order of execution
	Leaving  []*primitives.Receipt        // receipts to other accounts that the chunk sends, in order
	Fresh    int                          // number of calls of code that this chunk deployed
	Promised map[string]int               // number of state init actions in promises of contracts, by kind

	known   map[primitives.Hash]known // versions of code that calls can run, by code hash
	begun   bool
	instant []*primitives.Receipt
}

// known is a version of code. fresh means that the chunk deployed it.
type known struct {
	version byte
	fresh   bool
}

// Outcome is the result of a receipt.
type Outcome struct {
	ID        primitives.Hash
	Value     []byte
	Err       *primitives.ActionError // error of the receipt; nil: success with the result Value
	Burnt     primitives.Balance
	Contracts []primitives.AccountContract // contract of the account before each action
	Made      []primitives.Hash            // ids of the action receipts that this receipt created
}

// Kind returns "ok", or the tag of the error.
func (o *Outcome) Kind() string {
	if o.Err == nil {
		return "ok"
	}
	return o.Err.Kind.Tag.String()
}

// Begin returns an empty chunk at height h that reads and writes the state w.
func Begin(w *World, h primitives.Height, programs map[string]*Program) *Chunk {
	c := &Chunk{World: w, Height: h, Programs: programs, known: map[primitives.Hash]known{}, Promised: map[string]int{}}
	for _, a := range w.Accounts {
		c.bring(a.Code)
	}
	for _, code := range w.Global {
		c.bring(code)
	}
	c.begun = true
	return c
}

// Next executes and returns the next chunk. It has the receipts that c sends, and the transactions
// txs.
func (c *Chunk) Next(txs []*primitives.SignedTransaction) *Chunk {
	n := Begin(c.World, c.Height+1, c.Programs)
	n.play(txs, c.Leaving)
	return n
}

// play executes transactions, then their local receipts, then the incoming receipts. If the chunk
// contains a transaction twice, the second copy is ignored.
func (c *Chunk) play(txs []*primitives.SignedTransaction, incoming []*primitives.Receipt) {
	var local []*primitives.Receipt
	seen := map[primitives.Hash]bool{}
	for _, tx := range txs {
		if seen[tx.Hash()] {
			continue
		}
		seen[tx.Hash()] = true
		r, e := c.Transaction(tx)
		c.Refusals = append(c.Refusals, e)
		switch {
		case e != nil:
		case r.PredecessorID == r.ReceiverID:
			local = append(local, r)
		default:
			c.Leaving = append(c.Leaving, r)
		}
	}
	for _, r := range local {
		c.Run(r)
	}
	for _, r := range incoming {
		c.Run(r)
	}
}

// bring makes code known to the model, so that later calls in the chunk find its version.
func (c *Chunk) bring(code []byte) {
	if code == nil {
		return
	}
	hash := primitives.HashBytes(code)
	if _, ok := c.known[hash]; !ok {
		c.known[hash] = known{versionOf(code), c.begun}
	}
}

func less(a, b primitives.Balance) primitives.Balance {
	rest, ok := a.Sub(b)
	if !ok {
		panic("rules: a balance below zero")
	}
	return rest
}

func more(a, b primitives.Balance) primitives.Balance {
	sum, ok := a.Add(b)
	if !ok {
		panic("rules: a balance that is too large")
	}
	return sum
}

// Run executes a receipt, and then the receipts that it makes executable in the same chunk.
func (c *Chunk) Run(r *primitives.Receipt) {
	c.one(r)
	for len(c.instant) > 0 {
		r, c.instant = c.instant[0], c.instant[1:]
		c.one(r)
	}
}

func (c *Chunk) one(r *primitives.Receipt) {
	switch b := r.Body.(type) {
	case *primitives.GlobalContractDistribution:
		if b.Nonce >= c.Nonces[b.ID] {
			c.Nonces[b.ID] = b.Nonce
			c.Global[b.ID] = b.Code
			c.bring(b.Code)
		}
	case *primitives.DataReceipt:
		at := slot{r.ReceiverID, b.DataID}
		if b.Resume {
			if y := c.yields[at]; y != nil {
				delete(c.yields, at)
				c.execute(y)
			}
			return
		}
		c.received[at] = &b.Data
		if w := c.waiting[at]; w != nil {
			delete(c.waiting, at)
			c.try(w)
		}
	case *primitives.ActionReceipt:
		if b.Yield {
			c.yields[slot{r.ReceiverID, b.InputDataIDs[0]}] = r
			return
		}
		c.try(r)
	}
}

// try executes a receipt if all its data has arrived. Otherwise the receipt waits.
func (c *Chunk) try(r *primitives.Receipt) {
	b := r.Body.(*primitives.ActionReceipt)
	ready := true
	for _, id := range b.InputDataIDs {
		if at := (slot{r.ReceiverID, id}); c.received[at] == nil {
			c.waiting[at] = r
			ready = false
		}
	}
	if !ready {
		return
	}
	for _, id := range b.InputDataIDs {
		delete(c.received, slot{r.ReceiverID, id})
	}
	c.execute(r)
}

// receipt is a receipt during its execution.
type receipt struct {
	*Chunk
	r       *primitives.Receipt
	b       *primitives.ActionReceipt
	account *Account // account of the receiver; nil: the account does not exist
	actor   primitives.AccountID
	made    []*primitives.Receipt
	burnt   primitives.Balance
	value   []byte
	action  int
}

func (c *Chunk) execute(r *primitives.Receipt) {
	x := &receipt{Chunk: c, r: r, b: r.Body.(*primitives.ActionReceipt), account: c.Accounts[r.ReceiverID], actor: r.PredecessorID}
	before := c.clone()
	out := Outcome{ID: r.ID}
	for i, a := range x.b.Actions {
		x.action, x.value = i, nil
		contract := primitives.AccountContract{}
		if x.account != nil {
			contract = x.account.Contract
		}
		out.Contracts = append(out.Contracts, contract)
		from := len(x.made)
		e := x.act(a)
		for _, m := range x.made[from:] {
			if e == nil {
				e = c.Rules.valid(m)
			}
		}
		if e != nil {
			out.Err = primitives.NewActionError(uint64(i), e)
			break
		}
	}
	if out.Err == nil && x.account != nil {
		if lack := x.account.lacks(); !lack.IsZero() {
			out.Err = &primitives.ActionError{Kind: primitives.ActionErrorKind{Tag: primitives.ActionLackBalanceForState,
				AccountID: r.ReceiverID, Amount: lack}}
		}
	}
	for len(out.Contracts) < len(x.b.Actions) {
		out.Contracts = append(out.Contracts, primitives.AccountContract{})
	}
	if out.Err != nil {
		c.Accounts, c.Nonces = before.Accounts, before.Nonces
		x.made, x.burnt, x.value = nil, primitives.Balance{}, nil
		if d := deposits(x.b.Actions); !d.IsZero() && r.PredecessorID != primitives.SystemAccount {
			x.made = append(x.made, refund(x.refundTo(), d))
		}
	}
	for _, d := range x.b.OutputDataReceivers {
		data := x.value
		if out.Err == nil && data == nil {
			data = []byte{}
		}
		x.made = append(x.made, &primitives.Receipt{
			PredecessorID: r.ReceiverID, ReceiverID: d.ReceiverID, Body: &primitives.DataReceipt{DataID: d.DataID, Data: data},
		})
	}
	for i, m := range x.made {
		m.ID = primitives.ReceiptIDFromReceipt(r.ID, c.Height, uint64(i))
		b, isAction := m.Body.(*primitives.ActionReceipt)
		if isAction {
			out.Made = append(out.Made, m.ID)
		}
		if isAction && len(b.Actions) == 1 && b.Actions[0].Tag() == primitives.TagDeleteAccount {
			c.instant = append(c.instant, m)
		} else {
			c.Leaving = append(c.Leaving, m)
		}
	}
	out.Value, out.Burnt = x.value, x.burnt
	c.Outcomes = append(c.Outcomes, out)
}

func (x *receipt) refundTo() primitives.AccountID {
	if x.b.RefundTo != "" {
		return x.b.RefundTo
	}
	return x.r.PredecessorID
}

func refund(to primitives.AccountID, amount primitives.Balance) *primitives.Receipt {
	return &primitives.Receipt{PredecessorID: primitives.SystemAccount, ReceiverID: to, Body: &primitives.ActionReceipt{
		SignerID: primitives.SystemAccount, SignerPublicKey: primitives.ZeroED25519Key,
		Actions: []primitives.Action{&primitives.Transfer{Deposit: amount}},
	}}
}

// deposits returns the sum of the deposits of actions.
func deposits(actions []primitives.Action) (sum primitives.Balance) {
	for _, a := range actions {
		switch a := a.(type) {
		case *primitives.Transfer:
			sum = more(sum, a.Deposit)
		case *primitives.FunctionCall:
			sum = more(sum, a.Deposit)
		case *primitives.DeterministicStateInit:
			sum = more(sum, a.Deposit)
		case *primitives.UniversalStateInit:
			sum = more(sum, a.Deposit)
		case *primitives.TransferToGasKey:
			sum = more(sum, a.Deposit)
		case *primitives.Delegate:
			sum = more(sum, deposits(a.Action.Actions))
		case *primitives.DelegateV2:
			sum = more(sum, deposits(a.Action.Actions))
		default: // the remaining actions have no deposit
		}
	}
	return sum
}

// valid validates a new receipt. It returns nil if the receipt is valid. A refund is always valid.
func (v Rules) valid(r *primitives.Receipt) *primitives.ActionErrorKind {
	b, ok := r.Body.(*primitives.ActionReceipt)
	if !ok || r.PredecessorID == primitives.SystemAccount {
		return nil
	}
	why := v.Invalid(b.Actions, r.ReceiverID)
	if why == nil {
		return nil
	}
	return &primitives.ActionErrorKind{Tag: primitives.ActionNewReceiptValidationError, Receipt: &primitives.ReceiptValidationError{
		Tag: primitives.ReceiptActionsValidation, Actions: why,
	}}
}
