package conformance

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// Scene makes recorded requests fit a fresh chain: the recorded block hashes, keys and accounts
// give way to that chain's, and transactions are signed again.
type Scene struct {
	// Replace maps recorded texts (a hash, a key, an account) to those of this chain. Hashes of
	// transactions that were signed again are added as they come.
	Replace map[string]string
	// Resign returns the transaction to send instead of a recorded one. Nil: transactions stay as
	// they are.
	Resign func(*primitives.SignedTransaction) *primitives.SignedTransaction
}

// Request returns a line's request for this chain.
func (s *Scene) Request(l *Line) Request {
	r := l.Request()
	if s.Resign != nil {
		for _, text := range signedTexts(r.Body) {
			raw, err := base64.StdEncoding.DecodeString(text)
			tx := new(primitives.SignedTransaction)
			if err != nil || borsh.Unmarshal(raw, tx) != nil {
				continue // one that shall not decode
			}
			again := s.Resign(tx)
			r.Body = strings.ReplaceAll(r.Body, text, base64.StdEncoding.EncodeToString(again.AppendBorsh(nil)))
			if s.Replace == nil {
				s.Replace = map[string]string{}
			}
			s.Replace[tx.Hash().String()] = again.Hash().String()
		}
	}
	old := make([]string, 0, len(s.Replace))
	for k := range s.Replace { // sorted below
		old = append(old, k)
	}
	slices.Sort(old)
	pairs := make([]string, 0, 2*len(old))
	for _, k := range old {
		pairs = append(pairs, k, s.Replace[k])
	}
	r.Body = strings.NewReplacer(pairs...).Replace(r.Body)
	return r
}

// signedTexts returns the texts in a body that may be signed transactions.
func signedTexts(body string) []string {
	var request struct{ Params json.RawMessage }
	if json.Unmarshal([]byte(body), &request) != nil {
		return nil
	}
	var object struct {
		Signed string `json:"signed_tx_base64"`
	}
	if json.Unmarshal(request.Params, &object) == nil && object.Signed != "" {
		return []string{object.Signed}
	}
	var list []string
	if json.Unmarshal(request.Params, &list) == nil && len(list) == 1 {
		return list
	}
	return nil
}

// WireSeeds are the words whose ed25519 keys signed the recorded transactions: the root account of
// wire.jsonl.gz, and alice.test.near of wire2.jsonl.gz, whose nonce was 3,000,004 when the
// recording began.
var WireSeeds = []string{"seedW", "alice"}

// strangerSeed makes keys that belong to no account: what signs for keys whose seed is not known,
// all of which are refused.
const strangerSeed = "stranger"

// Resigner signs recorded transactions again, with the keys of WireSeeds. base returns the block
// hash to name instead of a recorded one. The same transaction becomes the same one each time, and
// one whose signature was wrong stays so.
func Resigner(base func(recorded primitives.Hash) primitives.Hash) func(*primitives.SignedTransaction) *primitives.SignedTransaction {
	keys := map[primitives.PublicKey]primitives.SecretKey{}
	for _, seed := range WireSeeds {
		k := primitives.SecretKeyFromSeed(primitives.ED25519, seed)
		keys[k.PublicKey()] = k
	}
	stranger := primitives.SecretKeyFromSeed(primitives.ED25519, strangerSeed)
	made := map[primitives.Hash]*primitives.SignedTransaction{}
	return func(old *primitives.SignedTransaction) *primitives.SignedTransaction {
		was := old.Hash()
		if tx := made[was]; tx != nil {
			return tx
		}
		t := old.Transaction
		key, known := keys[t.PublicKey]
		if !known {
			key = stranger
			t.PublicKey = stranger.PublicKey()
		}
		t.BlockHash = base(t.BlockHash)
		if !old.Signature.Verify(was[:], old.PublicKey) {
			key = stranger
		}
		hash := t.Hash()
		tx := primitives.NewSignedTransaction(t, key.Sign(hash[:]))
		made[was] = tx
		return tx
	}
}
