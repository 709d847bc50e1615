package conformance

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// Scene adapts recorded requests to a fresh chain: it replaces the recorded block hashes, keys and
// accounts by that chain's, and signs transactions again.
type Scene struct {
	// Replace maps recorded texts (a hash, a key, an account) to those of this chain. Hashes of
	// transactions that are signed again are added as they occur.
	Replace map[string]string
	// Resign returns the transaction to send instead of a recorded one. nil: transactions stay as
	// they are.
	Resign func(*primitives.SignedTransaction) *primitives.SignedTransaction
}

// Request returns the recorded request of a line, adapted to this chain.
func (s *Scene) Request(l *Line) Request {
	r := l.Request()
	if s.Resign != nil {
		for _, text := range signedTexts(r.Body) {
			raw, err := base64.StdEncoding.DecodeString(text)
			tx := new(primitives.SignedTransaction)
			if err != nil || borsh.Unmarshal(raw, tx) != nil {
				continue // a text that is not a valid transaction stays as it is
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

// WireSeeds are the seeds of the ed25519 keys that signed the recorded transactions: the root
// account of wire.jsonl.gz, and alice.test.near of wire2.jsonl.gz, with the nonce 3,000,004 at the
// start of the recording.
var WireSeeds = []string{"seedW", "alice"}

// strangerSeed is the seed of keys that belong to no account. They replace recorded keys whose
// seeds are unknown; transactions with such keys are all refused.
const strangerSeed = "stranger"

// Resigner signs recorded transactions again, with the keys of WireSeeds. base returns the block
// hash that replaces a recorded one. Equal transactions stay equal, and an invalid signature stays
// invalid.
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
