package fork

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
	"github.com/troupe-chain/troupe/primitives/genesis"
	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/runtime/state"
	"github.com/troupe-chain/troupe/storage/trie"
)

// ask is a question about a block's state. The type is comparable: concurrent callers with the same
// question share one request.
type ask struct {
	kind    kind
	account primitives.AccountID
	arg     string // for askKey and askNonces: the key's handle; for askState: the prefix; for askGlobalCode: the hash
}

type kind byte

const (
	askAccount kind = iota
	askKey
	askKeys
	askNonces
	askCode
	askState
	askGlobalCode
	askGlobalNamed // global code of an account
)

var kindNames = [...]string{"view_account", "view_access_key", "view_access_key_list", "view_gas_key_nonces", "view_code", "view_state",
	"view_global_contract_code", "view_global_contract_code_by_account_id"}

// answer is a verified reply. Which fields are set depends on the kind of the question.
type answer struct {
	value   []byte             // for questions about one value; nil: there is none
	account primitives.Account // for askAccount, if there is a value
	pairs   []state.Change     // for askKeys, askNonces and askState: trie keys and values, ascending
	large   bool               // for askState: there is more than the remote node returns in one reply
	proof   *trie.Partial      // for askState: the proof of the answer; nil: not proven
	size    int64
}

// String returns the question's name, for the cache and for errors.
func (q ask) String() string {
	s := kindNames[q.kind]
	if q.account != "" {
		s += " of " + string(q.account)
	}
	switch q.kind {
	case askKey, askNonces:
		s += " " + primitives.PublicKeyHandle(q.arg).String()
	case askState:
		if q.arg != "" {
			s += fmt.Sprintf(" under %x", q.arg)
		}
	case askGlobalCode:
		s += " " + primitives.Hash([]byte(q.arg)).String()
	}
	return s
}

// params returns the parameters of method query.
func (q ask) params(at primitives.Hash, prove bool) map[string]any {
	p := map[string]any{"request_type": kindNames[q.kind], "block_id": at}
	if q.account != "" {
		p["account_id"] = q.account
	}
	switch q.kind {
	case askKey, askNonces:
		key, _ := primitives.PublicKeyHandle(q.arg).FullKey()
		p["public_key"] = key
	case askState:
		p["prefix_base64"] = base64.StdEncoding.EncodeToString([]byte(q.arg))
		if prove {
			p["include_proof"] = true
		}
	case askGlobalCode:
		p["code_hash"] = primitives.Hash([]byte(q.arg))
	}
	return p
}

// absences are the names of the errors that mean that the remote node has no such entry.
var absences = []string{"UNKNOWN_ACCOUNT", "UNKNOWN_ACCESS_KEY", "NO_CONTRACT_CODE", "UNKNOWN_GAS_KEY", "NO_GLOBAL_CONTRACT_CODE"}

// Errors of replies that fail their checks.
var (
	errOther  = errors.New("the reply is for a block that was not requested")
	errForged = errors.New("the reply does not match its proof")
	// The method for nonces takes a public key, and the state has only the key's hash.
	errKeyHash = errors.New("the state has only the hash of the public key")
	errCode    = errors.New("the code in the reply does not match the code hash of its account")
)

// stored is an answer in the form in which the disk cache stores answers.
type stored struct {
	Absent bool            `json:"absent,omitempty"`
	Large  bool            `json:"large,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
}

// result has the fields that occur in replies to method query, of all kinds.
type result struct {
	Hash   *primitives.Hash   `json:"block_hash"`
	Height *primitives.Height `json:"block_height"`
	Error  *string            `json:"error"` // error text of method query for a missing key

	view.AccountMembers

	Nonce      *json.RawMessage `json:"nonce"`
	Permission *json.RawMessage `json:"permission"`
	Keys       *[]struct {
		Key       primitives.PublicKeyHandle `json:"public_key"`
		AccessKey json.RawMessage            `json:"access_key"`
	} `json:"keys"`
	LastKey json.RawMessage `json:"last_key"`
	Nonces  *[]uint64       `json:"nonces"`

	Code   *string `json:"code_base64"`
	Values *[]struct {
		Key   string `json:"key"`
		Value string `json:"value"`
	} `json:"values"`
	Proof []string `json:"proof"`
}

// read decodes a stored answer. It returns an error if the answer contradicts itself, the block or
// its proof. A nil root means that the state root is unknown.
func (q ask) read(s *stored, at primitives.Hash, height primitives.Height, root *primitives.Hash) (*answer, error) {
	a := &answer{large: s.Large, size: int64(len(s.Result)) + 256}
	if s.Absent || s.Large {
		return a, nil
	}
	var r result
	if err := json.Unmarshal(s.Result, &r); err != nil {
		return nil, fmt.Errorf("%w: %w", errReply, err)
	}
	if r.Hash == nil || r.Height == nil || *r.Hash != at || *r.Height != height {
		return nil, errOther
	}
	lacks := fmt.Errorf("%w: the reply lacks the requested fields", errReply)
	switch q.kind {
	case askAccount:
		if r.Amount == nil || r.Locked == nil {
			return nil, lacks
		}
		account, err := r.Account()
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errReply, err)
		}
		a.account = account
		a.value = a.account.AppendBorsh(nil)
	case askKey:
		if r.Nonce == nil || r.Permission == nil {
			return nil, lacks
		}
		k, err := accessKey(q.account, primitives.PublicKeyHandle(q.arg),
			fmt.Appendf(nil, `{"nonce":%s,"permission":%s}`, *r.Nonce, *r.Permission))
		if err != nil {
			return nil, err
		}
		a.value = k.AppendBorsh(nil)
	case askKeys:
		if r.Keys == nil || len(r.LastKey) > 0 && string(r.LastKey) != "null" {
			return nil, lacks
		}
		for _, x := range *r.Keys {
			k, err := accessKey(q.account, x.Key, x.AccessKey)
			if err != nil {
				return nil, err
			}
			a.pairs = append(a.pairs, state.Change{Key: primitives.AppendAccessKeyKey(nil, q.account, x.Key), Value: k.AppendBorsh(nil)})
		}
		slices.SortFunc(a.pairs, byKey)
	case askNonces:
		if r.Nonces == nil {
			return nil, lacks
		}
		for i, n := range *r.Nonces {
			if i >= 1<<16 {
				return nil, fmt.Errorf("%w: a gas key has %d nonces; at most %d are possible", errReply, len(*r.Nonces), 1<<16)
			}
			a.pairs = append(a.pairs, state.Change{Key: primitives.AppendGasKeyNonceKey(nil, q.account,
				primitives.PublicKeyHandle(q.arg), uint16(i)), Value: borsh.AppendUint64(nil, n)})
		}
	case askCode, askGlobalCode, askGlobalNamed:
		if r.Code == nil {
			return nil, lacks
		}
		code, err := base64.StdEncoding.Strict().DecodeString(*r.Code)
		if err != nil {
			return nil, fmt.Errorf("%w: code_base64: %w", errReply, err)
		}
		if q.kind == askGlobalCode && primitives.HashBytes(code) != primitives.Hash([]byte(q.arg)) {
			return nil, errCode
		}
		a.value = append([]byte{}, code...)
	case askState:
		if r.Values == nil {
			return nil, lacks
		}
		return a, q.readState(a, &r, root)
	}
	return a, nil
}

func byKey(x, y state.Change) int { return bytes.Compare(x.Key, y.Key) }

// accessKey decodes an access key in the form of RPC replies, which is also the form of genesis
// records.
func accessKey(id primitives.AccountID, h primitives.PublicKeyHandle, in []byte) (*primitives.AccessKey, error) {
	text := fmt.Appendf(nil, `{"AccessKey":{"account_id":%q,"public_key":%q,"access_key":`, id, h.String())
	r, err := genesis.ParseRecord(append(append(text, in...), "}}"...))
	if err != nil {
		return nil, fmt.Errorf("%w: access key: %w", errReply, err)
	}
	return &r.(*genesis.AccessKeyRecord).AccessKey, nil
}

// readState reads a contract's pairs under a prefix. With a root and a proof, the pairs must be
// exactly the pairs that the proof shows.
func (q ask) readState(a *answer, r *result, root *primitives.Hash) error {
	prefix := primitives.AppendContractDataKey(nil, q.account, []byte(q.arg))
	var strings [][]byte
	for _, v := range *r.Values {
		key, err1 := base64.StdEncoding.Strict().DecodeString(v.Key)
		value, err2 := base64.StdEncoding.Strict().DecodeString(v.Value)
		if err := errors.Join(err1, err2); err != nil {
			return fmt.Errorf("%w: values: %w", errReply, err)
		}
		full := primitives.AppendContractDataKey(nil, q.account, key)
		if !bytes.HasPrefix(full, prefix) || len(a.pairs) > 0 && bytes.Compare(a.pairs[len(a.pairs)-1].Key, full) >= 0 {
			return fmt.Errorf("%w: values outside the requested prefix, or not in order", errReply)
		}
		if value == nil {
			value = []byte{}
		}
		a.pairs = append(a.pairs, state.Change{Key: full, Value: value})
		strings = append(strings, value)
	}
	if len(r.Proof) == 0 || root == nil {
		return nil
	}
	nodes := map[primitives.Hash]bool{}
	for _, text := range r.Proof {
		node, err := base64.StdEncoding.Strict().DecodeString(text)
		if err != nil {
			return fmt.Errorf("%w: proof: %w", errReply, err)
		}
		nodes[primitives.HashBytes(node)] = true
		strings = append(strings, node)
	}
	p, err := trie.NewPartial(strings, *root)
	if err != nil {
		return fmt.Errorf("%w: %w", errForged, err)
	}
	rec, i, other := new(trie.Recording), 0, false
	err = p.Scan(prefix, nil, rec, func(key, value []byte) bool {
		other = i == len(a.pairs) || !bytes.Equal(key, a.pairs[i].Key) || !bytes.Equal(value, a.pairs[i].Value)
		i++
		return !other
	})
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", errForged, err)
	case other, i != len(a.pairs):
		return fmt.Errorf("%w: its %d values are not those in the proof", errForged, len(a.pairs))
	}
	for h := range nodes {
		if !rec.Contains(h) {
			return fmt.Errorf("%w: the proof has nodes that are not on the path", errForged)
		}
	}
	a.proof = p
	return nil
}
