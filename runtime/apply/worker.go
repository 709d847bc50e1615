package apply

import (
	"fmt"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/action"
	"github.com/troupe-chain/troupe/runtime/fees"
	"github.com/troupe-chain/troupe/runtime/parameters"
	"github.com/troupe-chain/troupe/runtime/state"
	"github.com/troupe-chain/troupe/runtime/verify"
)

// worker runs one receipt at a time on an update. A worker collects in out the receipt's effects
// outside of the update, so that a receipt can run before its turn.
type worker struct {
	block  *action.Block
	layout primitives.ShardLayout
	u      *state.TrieUpdate
	exec   action.Execution
	out    executed
}

// executed is the result of running a receipt, without the receipt's writes.
type executed struct {
	balances
	done      bool // outcome is set: the receipt, or a receipt that waited for it, was executed
	outcome   primitives.OutcomeWithID
	sends     []*primitives.Receipt
	instant   []*primitives.Receipt
	proposals []primitives.ValidatorStake
	compute   parameters.Compute // compute used by work that has no outcome
	begun     [primitives.NumActionTags]uint8
	callsDone uint8
	failure   action.CallFailure
}

// reset clears the result of the last receipt and keeps its memory.
func (w *worker) reset() {
	sends, instant := w.out.sends[:0], w.out.instant[:0]
	clear(w.out.sends)
	clear(w.out.instant)
	w.out = executed{sends: sends, instant: instant}
}

// run processes a receipt (nearcore lib.rs:1288). run executes the receipt if all inputs of the
// receipt have arrived, and otherwise stores the receipt. If the receipt brings the last input of a
// stored receipt, run executes the stored receipt.
func (w *worker) run(b *action.Block, l primitives.ShardLayout, u *state.TrieUpdate, r *primitives.Receipt) error {
	w.block, w.layout, w.u = b, l, u
	switch body := r.Body.(type) {
	case *primitives.ActionReceipt:
		if body.Yield {
			return w.storeYield(r, body)
		}
		return w.actions(r, body)
	case *primitives.DataReceipt:
		if body.Resume {
			return w.resume(r, body)
		}
		return w.data(r, body)
	case *primitives.GlobalContractDistribution:
		return w.distribute(r, body)
	}
	panic(fmt.Sprintf("apply: no case for %T", r.Body))
}

// postponed commits the writes of a receipt that was stored and not executed.
func (w *worker) postponed(r *primitives.Receipt) error {
	w.u.Commit(primitives.CausePostponedReceipt, r.ID)
	return nil
}

// actions executes an action receipt if all of its inputs have arrived. Otherwise actions stores
// the receipt.
func (w *worker) actions(r *primitives.Receipt, body *primitives.ActionReceipt) error {
	missing := uint32(0)
	for _, id := range body.InputDataIDs {
		there, err := w.u.HasReceivedData(r.ReceiverID, id)
		if err != nil {
			return err
		}
		if !there {
			missing++
			w.u.SetPostponedReceiptID(r.ReceiverID, id, r.ID)
		}
	}
	if missing == 0 {
		return w.execute(r, body)
	}
	w.u.SetPendingDataCount(r.ReceiverID, r.ID, missing)
	w.u.SetPostponedReceipt(r)
	return w.postponed(r)
}

// data stores an input. If the stored input was the last input that a postponed receipt waited for,
// data executes that receipt.
func (w *worker) data(r *primitives.Receipt, body *primitives.DataReceipt) error {
	to := r.ReceiverID
	w.u.SetReceivedData(to, body.DataID, body.Data)
	id, waits, err := w.u.PostponedReceiptID(to, body.DataID)
	if err != nil {
		return err
	}
	if !waits {
		return w.postponed(r)
	}
	w.u.RemovePostponedReceiptID(to, body.DataID)
	n, err := w.u.PendingDataCount(to, id)
	if err != nil {
		return err
	}
	switch n {
	case 0:
		return state.Inconsistent("receipt %v waits for no data, yet some arrived", id)
	case 1:
		w.u.RemovePendingDataCount(to, id)
		ready, err := w.u.PostponedReceipt(to, id)
		if err != nil {
			return err
		}
		w.u.RemovePostponedReceipt(to, id)
		return w.executeStored(ready)
	}
	w.u.SetPendingDataCount(to, id, n-1)
	return w.postponed(r)
}

func (w *worker) executeStored(r *primitives.Receipt) error {
	body, ok := r.Body.(*primitives.ActionReceipt)
	if !ok {
		return state.Inconsistent("receipt %v that waited has no actions", r.ID)
	}
	return w.execute(r, body)
}

// storeYield stores a promise yield until a receipt resumes the yield.
func (w *worker) storeYield(r *primitives.Receipt, body *primitives.ActionReceipt) error {
	if len(body.InputDataIDs) != 1 {
		return state.Inconsistent("promise yield %v waits for %d inputs", r.ID, len(body.InputDataIDs))
	}
	w.u.SetYieldReceipt(r, body.InputDataIDs[0])
	return w.postponed(r)
}

// resume executes the yield that the resume is for. resume ignores further resumes of that yield,
// and a timeout after a resume.
func (w *worker) resume(r *primitives.Receipt, body *primitives.DataReceipt) error {
	to, data := r.ReceiverID, body.DataID
	if body.Data == nil { // the yield has timed out
		status, found, err := w.u.YieldStatus(to, data)
		if err != nil {
			return err
		}
		if found && status == state.ResumeInitiated {
			return nil
		}
	}
	yield, err := w.u.YieldReceipt(to, data)
	if yield == nil || err != nil {
		return err
	}
	w.u.RemoveYieldReceipt(to, data)
	w.u.RemoveYieldStatus(to, data)
	if w.block.Config.Version.Has(parameters.YieldWithID) {
		id, found, err := w.u.YieldIDOfData(to, data)
		if err != nil {
			return err
		}
		if found {
			w.u.RemoveYieldID(to, id, data)
		}
	}
	w.u.SetReceivedData(to, data, body.Data)
	return w.executeStored(yield)
}

// distribute stores a global contract, unless the shard has a newer version. Then distribute
// forwards the contract to the next shard that lacks it (nearcore global_contracts.rs:109).
func (w *worker) distribute(r *primitives.Receipt, d *primitives.GlobalContractDistribution) error {
	known, err := w.u.GlobalNonce(&d.ID)
	if err != nil {
		return err
	}
	// the nonces are equal in the deploying shard, where the deployment has stored the nonce
	// already
	if d.Nonce >= known {
		w.u.SetGlobalNonce(&d.ID, d.Nonce)
		w.u.SetGlobalCode(&d.ID, d.Code)
		w.block.Warm(r.PredecessorID, d.Code)
		w.u.Commit(primitives.CauseReceiptProcessing, r.ID)
		if w.out.compute, err = fees.DistributionCompute(w.block.Config, len(d.Code)); err != nil {
			return err
		}
	}
	delivered := append(slices.Clone(d.AlreadyDelivered), w.block.ShardID)
	slices.Sort(delivered)
	delivered = slices.Compact(delivered)
	for _, next := range w.layout.ShardIDs() {
		if slices.Contains(delivered, next) {
			continue
		}
		copied := *d
		copied.TargetShard, copied.AlreadyDelivered = next, delivered
		w.out.sends = append(w.out.sends, &primitives.Receipt{
			PredecessorID: r.PredecessorID, ReceiverID: primitives.SystemAccount,
			ID: primitives.ReceiptIDFromReceipt(r.ID, w.block.Height, 0), Body: &copied,
		})
		break
	}
	return nil
}

// inputs reads and removes the inputs that arrived for a receipt.
func (w *worker) inputs(r *primitives.Receipt, body *primitives.ActionReceipt) ([]action.PromiseResult, error) {
	if len(body.InputDataIDs) == 0 {
		return nil, nil
	}
	out := make([]action.PromiseResult, len(body.InputDataIDs))
	for i, id := range body.InputDataIDs {
		data, found, err := w.u.ReceivedData(r.ReceiverID, id)
		if err != nil {
			return nil, err
		}
		if !found {
			return nil, state.Inconsistent("received data %v should be in the state", id)
		}
		out[i] = action.PromiseResult{Data: data, Failed: data == nil}
		w.u.RemoveReceivedData(r.ReceiverID, id)
	}
	return out, nil
}

// execute runs a receipt with all of its inputs, and settles its balances (nearcore lib.rs:771).
func (w *worker) execute(r *primitives.Receipt, body *primitives.ActionReceipt) error {
	inputs, err := w.inputs(r, body)
	if err != nil {
		return err
	}
	// Commit now, because the inputs stay removed even if the receipt fails.
	w.u.Commit(primitives.CauseActionReceiptProcessingStarted, r.ID)
	x := &w.exec
	*x = action.Execution{Block: w.block, State: w.u, Receipt: r, Body: body, Inputs: inputs}
	if err := x.Run(); err != nil {
		return err
	}
	res, cfg := &x.Result, w.block.Config
	if res.Err == nil && x.Exists {
		lack, err := verify.StorageStake(cfg, &x.Account, x.Account.Amount)
		if err != nil {
			return state.Inconsistent("%w", err)
		}
		if lack.IsZero() {
			w.u.SetAccount(r.ReceiverID, &x.Account)
		} else {
			res.Fail(&primitives.ActionError{Kind: primitives.ActionErrorKind{
				Tag: primitives.ActionLackBalanceForState, AccountID: r.ReceiverID, Amount: lack,
			}})
		}
	}
	s, err := fees.Settle(cfg, r, w.block.GasPrice, fees.Executed{
		GasUsed: res.GasUsed, GasBurnt: res.GasBurnt, Failed: res.Err != nil,
		CreatedAccount: !x.Existed && x.Exists && res.Err == nil,
	})
	if err != nil {
		return err
	}
	if !s.DepositRefund.IsZero() {
		res.NewReceipts = append(res.NewReceipts, action.BalanceRefund(action.RefundReceiver(r), s.DepositRefund))
	}
	if !s.GasRefund.IsZero() {
		res.NewReceipts = append(res.NewReceipts, action.GasRefund(body.SignerID, body.SignerPublicKey, s.GasRefund))
	}
	if res.Err == nil {
		w.u.Commit(primitives.CauseReceiptProcessing, r.ID)
	} else {
		w.u.Rollback()
	}
	out := &w.out
	out.proposals, out.begun = res.Proposals, res.Begun
	out.callsDone, out.failure = res.CallsDone, res.CallFailure
	tokens, ok := s.TokensBurnt.Add(res.TokensBurnt)
	if !ok {
		return primitives.ErrOverflow
	}
	out.burnt, out.other, out.subsidized = tokens, s.OtherBurnt, res.Subsidized
	if err := w.reward(r, res.GasBurntInVM, s.BurnPrice); err != nil {
		return err
	}
	w.route(r, body)
	out.done = true
	out.outcome.ID = r.ID
	o := &out.outcome.Outcome
	o.Logs, o.GasBurnt, o.TokensBurnt, o.ExecutorID = res.Logs, res.GasBurnt, tokens, r.ReceiverID
	o.ComputeUsage = primitives.Gas(res.Compute)
	o.Metadata = w.metadata(len(body.Actions))
	switch {
	case res.Err != nil:
		e := primitives.TxExecutionError{Action: res.Err}
		o.Status = primitives.ExecutionStatus{Kind: primitives.StatusFailure, Failure: e.AppendJSON(nil)}
	case res.Return.Kind == action.ReturnReceipt:
		id := primitives.ReceiptIDFromReceipt(r.ID, w.block.Height, uint64(res.Return.Receipt))
		o.Status = primitives.ExecutionStatus{Kind: primitives.StatusSuccessReceiptID, ReceiptID: id}
	default:
		o.Status = primitives.ExecutionStatus{Kind: primitives.StatusSuccessValue, Value: res.Return.Value}
	}
	return nil
}

// metadata returns the part of an outcome that is not hashed. If an action was not reached,
// metadata states that the account had no contract before that action.
func (w *worker) metadata(actions int) primitives.ExecutionMetadata {
	res := &w.exec.Result
	if !w.block.Config.Version.Has(parameters.ExecutionMetadataV4) {
		return primitives.ExecutionMetadata{Version: 3, Profile: res.Profile}
	}
	for len(res.Contracts) < actions {
		res.Contracts = append(res.Contracts, primitives.AccountContract{})
	}
	return primitives.ExecutionMetadata{Version: 4, Profile: res.Profile, Contracts: res.Contracts}
}

// reward pays the receiver its share of the gas that its contract burnt, even if the receipt
// failed. reward pays nothing if the account no longer exists.
func (w *worker) reward(r *primitives.Receipt, inVM primitives.Gas, price primitives.Balance) error {
	if inVM == 0 {
		return nil
	}
	amount, err := fees.Reward(w.block.Config, inVM, price)
	if err != nil || amount.IsZero() {
		return err
	}
	var a primitives.Account
	found, err := w.u.Account(r.ReceiverID, &a)
	if err != nil || !found {
		return err
	}
	var ok bool
	if w.out.burnt, ok = w.out.burnt.Sub(amount); !ok {
		return state.Inconsistent("reward %v of receipt %v is more than it burnt", amount, r.ID)
	}
	if a.Amount, ok = a.Amount.Add(amount); !ok {
		return primitives.ErrOverflow
	}
	w.u.SetAccount(r.ReceiverID, &a)
	w.u.Commit(primitives.CauseActionReceiptGasReward, r.ID)
	return nil
}

// route gives new receipts their ids and destinations, and sends the result to the receipts that
// wait for it.
func (w *worker) route(r *primitives.Receipt, body *primitives.ActionReceipt) {
	res, out := &w.exec.Result, &w.out
	if len(body.OutputDataReceivers) > 0 {
		if res.Err == nil && res.Return.Kind == action.ReturnReceipt {
			// The receipt of the returned promise sends the result instead of r.
			next := res.NewReceipts[res.Return.Receipt].Body.(*primitives.ActionReceipt)
			next.OutputDataReceivers = append(slices.Clip(next.OutputDataReceivers), body.OutputDataReceivers...)
		} else {
			res.NewReceipts = append(res.NewReceipts, w.answers(r, body)...)
		}
	}
	if len(res.NewReceipts) == 0 {
		return
	}
	ids := make([]primitives.Hash, 0, len(res.NewReceipts))
	for i, n := range res.NewReceipts {
		n.ID = primitives.ReceiptIDFromReceipt(r.ID, w.block.Height, uint64(i))
		if _, ok := n.Body.(*primitives.ActionReceipt); ok {
			ids = append(ids, n.ID)
		}
		if n.IsInstant() {
			out.instant = append(out.instant, n)
		} else {
			out.sends = append(out.sends, n)
		}
	}
	out.outcome.ReceiptIDs = ids
}

// answers returns the data receipts with the result of r. The data in these receipts is the value
// that r returned; empty if r returned no value, and nil if r failed.
func (w *worker) answers(r *primitives.Receipt, body *primitives.ActionReceipt) []*primitives.Receipt {
	res := &w.exec.Result
	var data []byte
	if res.Err == nil {
		if data = res.Return.Value; data == nil {
			data = []byte{}
		}
	}
	out := make([]*primitives.Receipt, len(body.OutputDataReceivers))
	for i := range out {
		d := &body.OutputDataReceivers[i]
		out[i] = &primitives.Receipt{
			PredecessorID: r.ReceiverID, ReceiverID: d.ReceiverID, Body: &primitives.DataReceipt{DataID: d.DataID, Data: data},
		}
	}
	return out
}
