package load

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/troupe-chain/troupe/internal/testkit/contracts"
	"github.com/troupe-chain/troupe/primitives"
)

// ErrPoor means that the balance of the funding account does not suffice to create the sending
// accounts.
var ErrPoor = errors.New("the account that pays has too few tokens")

// member is a sending account. Only the lane that took it from Chain.free may use its nonce.
type member struct {
	id    primitives.AccountID
	key   primitives.SecretKey
	nonce primitives.Nonce
	known bool // true: nonce is the last nonce of the account's key
	shard int
}

// crowd is the set of sending accounts. The sending accounts are sub-accounts of the funding
// account, which pays for them. Names and keys of the sub-accounts are derived from the funding
// account's key, so that the next run finds the same accounts.
type crowd struct {
	c      *Client
	funder *primitives.KeyFile
	tag    string
	all    []member
	fund   primitives.Balance // initial balance of each account
	nonce  primitives.Nonce   // nonce of the funding account's key
	say    func(part float64, what string)

	ft, hog primitives.AccountID // accounts of the token contract and the storage-heavy contract; empty: not needed
}

// registering is the deposit for the storage of one token balance, plus a small margin.
var registering, _ = primitives.ParseBalance("1300000000000000000000")

const (
	firstLetters = "abcdefghijklmnopqrstuvwxyz" // first letters of account names, which spread over all shards
	askers       = 32                           // number of concurrent account queries
	makeLimit    = 3 * time.Minute              // time limit for creating all accounts
	makeAgain    = 5 * time.Second              // after this time without progress, missing accounts are created again
	callGas      = primitives.Gas(10_000_000_000_000)
	heavyGas     = primitives.Gas(30_000_000_000_000)
	minted       = 1_000_000_000
	// Each storage-heavy call writes heavyCount entries of heavySize bytes. A sender cycles through
	// heavyOwn entries.
	heavyCount, heavySize, heavyOwn = 2, 2048, 8
)

func newCrowd(c *Client, funder *primitives.KeyFile, n int, fund primitives.Balance, w Workload,
	say func(float64, string)) (*crowd, error) {
	secret := sha256.Sum256([]byte("troupe bench " + funder.SecretKey.String()))
	r := &crowd{c: c, funder: funder, tag: hex.EncodeToString(secret[:3]), all: make([]member, n), fund: fund, say: say}
	for i := range r.all {
		seed := sha256.Sum256(fmt.Appendf(secret[:], " %d", i))
		m := &r.all[i]
		m.key = primitives.SecretKeyFromSeed(primitives.ED25519, hex.EncodeToString(seed[:16]))
		id, err := primitives.ParseAccountID(fmt.Sprintf("%c%s-%d.%s", firstLetters[i*11%len(firstLetters)], r.tag, i, funder.AccountID))
		if err != nil {
			return nil, fmt.Errorf("load: name a sub-account of %s: %w", funder.AccountID, err)
		}
		m.id = id
	}
	if w.uses(callFT) {
		r.ft = primitives.AccountID(fmt.Sprintf("ft%s-%d.%s", r.tag, n, funder.AccountID))
	}
	if w.uses(callHog) {
		r.hog = primitives.AccountID(fmt.Sprintf("hog%s-%d.%s", r.tag, n, funder.AccountID))
	}
	return r, nil
}

// make creates the missing accounts and contracts and waits until they exist. make repeats rounds,
// because transactions can be lost: if a validator receives the transactions of the funding account
// out of order, it may include one with a higher nonce first. After that, the transactions with
// lower nonces are invalid.
func (r *crowd) make(ctx context.Context) error {
	for end := time.Now().Add(makeLimit); ; {
		there, err := r.round(ctx)
		switch {
		case err != nil:
			return err
		case there:
			return r.minted(ctx, end)
		case time.Now().After(end):
			return fmt.Errorf("load: some of %d accounts, or a contract, were not created within %v", len(r.all), makeLimit)
		}
	}
}

// round creates missing accounts and contracts. The result is whether all accounts and contracts
// existed before.
func (r *crowd) round(ctx context.Context) (there bool, err error) {
	nonce, full, ok, err := r.c.accessKey(ctx, r.funder.AccountID, r.funder.PublicKey())
	switch {
	case err != nil:
		return false, err
	case !ok:
		return false, fmt.Errorf("load: account %s does not have the key %v on this chain", r.funder.AccountID, r.funder.PublicKey())
	case !full:
		return false, fmt.Errorf("load: the key %v of %s cannot create accounts: it is a function-call key",
			r.funder.PublicKey(), r.funder.AccountID)
	}
	r.nonce = max(r.nonce, nonce)
	missing, err := r.look(ctx)
	if err != nil {
		return false, err
	}
	var txs []func() (primitives.AccountID, []primitives.Action)
	need := primitives.NEAR(1) // additional 1 NEAR for gas
	add := func(amount primitives.Balance, to primitives.AccountID, actions ...primitives.Action) {
		need, _ = need.Add(amount)
		txs = append(txs, func() (primitives.AccountID, []primitives.Action) { return to, actions })
	}
	for _, i := range missing {
		add(r.fund, r.all[i].id, &primitives.CreateAccount{}, &primitives.Transfer{Deposit: r.fund},
			&primitives.AddKey{PublicKey: r.all[i].key.PublicKey()})
	}
	if err := r.contracts(ctx, missing, add); err != nil {
		return false, err
	}
	if len(txs) == 0 {
		return true, nil
	}
	has, _, err := r.c.amount(ctx, r.funder.AccountID)
	if err != nil {
		return false, err
	}
	if has.Cmp(need) < 0 {
		return false, fmt.Errorf("load: %w: %s has %s yoctoNEAR, and %d transactions that create %d accounts need %s; "+
			"reduce --accounts (the number of accounts) or --fund (the balance of each)",
			ErrPoor, r.funder.AccountID, has, len(txs), len(missing), need)
	}
	if err := r.submit(ctx, txs); err != nil {
		return false, err
	}
	return false, r.await(ctx)
}

// contracts adds transactions that deploy missing contracts and transfer tokens to new accounts.
func (r *crowd) contracts(ctx context.Context, missing []int,
	add func(primitives.Balance, primitives.AccountID, ...primitives.Action)) error {
	key := &primitives.AddKey{PublicKey: r.funder.PublicKey()}
	if r.ft != "" {
		_, there, err := r.c.amount(ctx, r.ft)
		if err != nil {
			return err
		}
		if !there {
			amount := primitives.NEAR(5 + uint64(len(r.all))/100)
			add(amount, r.ft, &primitives.CreateAccount{}, &primitives.Transfer{Deposit: amount}, key,
				&primitives.DeployContract{Code: contracts.C("ft")},
				&primitives.FunctionCall{Method: "new", Gas: 3 * callGas,
					Args: fmt.Appendf(nil, `{"owner_id":%q,"total_supply":"1","metadata":{"spec":"ft-1.0.0","name":"Bench","symbol":"BENCH","decimals":6}}`, r.funder.AccountID)})
			missing = missing[:0]
			for i := range r.all {
				missing = append(missing, i)
			}
		}
		for _, i := range missing {
			add(registering, r.ft, &primitives.FunctionCall{Method: "storage_deposit", Gas: callGas, Deposit: registering,
				Args: fmt.Appendf(nil, `{"account_id":%q}`, r.all[i].id)},
				&primitives.FunctionCall{Method: "ft_mint", Gas: callGas, Deposit: primitives.Yocto(1),
					Args: fmt.Appendf(nil, `{"account_id":%q,"amount":"%d"}`, r.all[i].id, minted)})
		}
	}
	if r.hog != "" {
		_, there, err := r.c.amount(ctx, r.hog)
		if err != nil {
			return err
		}
		if !there {
			// 1 NEAR pays for 100,000 bytes of storage.
			amount := primitives.NEAR(5 + uint64(len(r.all))*heavyOwn*(heavySize+60)/100_000)
			add(amount, r.hog, &primitives.CreateAccount{}, &primitives.Transfer{Deposit: amount}, key,
				&primitives.DeployContract{Code: contracts.C("hog")})
		}
	}
	return nil
}

// look queries the keys of all accounts. The result is the indexes of the missing accounts.
func (r *crowd) look(ctx context.Context) (missing []int, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	for k := range askers {
		wg.Go(func() {
			for i := k; i < len(r.all) && ctx.Err() == nil; i += askers {
				if err := r.all[i].refresh(ctx, r.c); err != nil {
					cancel(err)
				}
			}
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	for i := range r.all {
		if !r.all[i].known {
			missing = append(missing, i)
		}
	}
	return missing, nil
}

// refresh queries a member's nonce. The nonce is unknown if the key does not exist. Transactions
// that the member has already sent may still be in a pool, so the member does not use their nonces
// again.
func (m *member) refresh(ctx context.Context, c *Client) error {
	nonce, _, known, err := c.accessKey(ctx, m.id, m.key.PublicKey())
	m.nonce, m.known = max(m.nonce, nonce), known
	return err
}

// submit sends transactions of the funding account, in order.
func (r *crowd) submit(ctx context.Context, txs []func() (primitives.AccountID, []primitives.Action)) error {
	base, err := r.c.base(ctx)
	if err != nil {
		return err
	}
	for i, tx := range txs {
		to, actions := tx()
		r.nonce++
		raw := sign(r.funder.AccountID, r.funder.SecretKey, to, r.nonce, base, actions).AppendBorsh(nil)
		var hash string
		if err := r.c.Call(ctx, "broadcast_tx_async", []any{raw}, &hash); err != nil {
			return fmt.Errorf("load: transaction %d of the %d that create accounts: %w", i+1, len(txs), err)
		}
		r.say(float64(i+1)/float64(len(txs)), "accounts")
		// a node accepts a limited number of pending transactions of one key: wait until these are
		// included
		if i%256 == 255 {
			if err := r.keep(ctx, r.nonce-200); err != nil {
				return err
			}
			if base, err = r.c.base(ctx); err != nil {
				return err
			}
		}
	}
	return r.keep(ctx, r.nonce)
}

// keep waits until the key of the funding account has at least the nonce to.
func (r *crowd) keep(ctx context.Context, to primitives.Nonce) error {
	for end := time.Now().Add(makeLimit); ; {
		nonce, _, _, err := r.c.accessKey(ctx, r.funder.AccountID, r.funder.PublicKey())
		if err != nil || nonce >= to {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("load: the transactions that create accounts are not in blocks after %v: the key of %s has "+
				"nonce %d, expected %d", makeLimit, r.funder.AccountID, nonce, to)
		}
		if !sleep(ctx, 100*time.Millisecond) {
			return ctx.Err()
		}
	}
}

// await waits until all accounts exist, or until no new ones have appeared for makeAgain.
func (r *crowd) await(ctx context.Context) error {
	for end, last := time.Now().Add(makeAgain), -1; ; {
		missing, err := r.look(ctx)
		if err != nil {
			return err
		}
		there := true
		for _, id := range []primitives.AccountID{r.ft, r.hog} {
			if id != "" && there {
				if _, there, err = r.c.amount(ctx, id); err != nil {
					return err
				}
			}
		}
		switch {
		case len(missing) == 0 && there, time.Now().After(end):
			return nil
		case len(missing) != last:
			end, last = time.Now().Add(makeAgain), len(missing)
		}
		if !sleep(ctx, 200*time.Millisecond) {
			return ctx.Err()
		}
	}
}

// minted waits until the last account has received its tokens.
func (r *crowd) minted(ctx context.Context, end time.Time) error {
	for r.ft != "" {
		var out struct{ Result []byte }
		var bytes struct{ Result []int }
		args := fmt.Appendf(nil, `{"account_id":%q}`, r.all[len(r.all)-1].id)
		err := r.c.Call(ctx, "query", map[string]any{"request_type": "call_function", "finality": "optimistic",
			"account_id": r.ft, "method_name": "ft_balance_of", "args_base64": args}, &bytes)
		for _, b := range bytes.Result {
			out.Result = append(out.Result, byte(b))
		}
		if err == nil && strings.Trim(string(out.Result), `"0`) != "" {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("load: account %s has no tokens of contract %s after %v: %s, %w", r.all[len(r.all)-1].id, r.ft,
				makeLimit, out.Result, err)
		}
		if !sleep(ctx, 200*time.Millisecond) {
			return ctx.Err()
		}
	}
	return nil
}

func sign(from primitives.AccountID, key primitives.SecretKey, to primitives.AccountID, nonce primitives.Nonce,
	base primitives.Hash, actions []primitives.Action) *primitives.SignedTransaction {
	t := primitives.Transaction{SignerID: from, PublicKey: key.PublicKey(),
		Nonce: primitives.TransactionNonce{Nonce: nonce}, ReceiverID: to, BlockHash: base, Actions: actions}
	hash := t.Hash()
	return primitives.NewSignedTransaction(t, key.Sign(hash[:]))
}
