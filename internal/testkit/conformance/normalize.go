package conformance

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/troupe-chain/troupe/primitives"
)

// value is a JSON value that keeps the order of keys and the text of numbers.
type value struct {
	keys   []string // keys of an object; for other kinds nil
	items  []value  // members of an object in the order of keys, or items of an array
	text   string   // decoded text of a string; of other scalars the text as written
	kind   byte     // '{', '[', '"', or '0' for numbers, booleans and null
	number bool
}

func parseJSON(text string) (value, error) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	v, err := readValue(d)
	if err == nil && d.More() {
		err = errors.New("text follows the JSON value")
	}
	return v, err
}

func readValue(d *json.Decoder) (value, error) {
	token, err := d.Token()
	if err != nil {
		return value{}, err
	}
	switch t := token.(type) {
	case json.Delim:
		v := value{kind: byte(t)}
		for d.More() {
			if t == '{' {
				key, err := d.Token()
				if err != nil {
					return v, err
				}
				v.keys = append(v.keys, key.(string))
			}
			item, err := readValue(d)
			if err != nil {
				return v, err
			}
			v.items = append(v.items, item)
		}
		_, err := d.Token() // the closing bracket or brace
		return v, err
	case string:
		return value{kind: '"', text: t}, nil
	case json.Number:
		return value{kind: '0', text: t.String(), number: true}, nil
	}
	if token == nil {
		return value{kind: '0', text: "null"}, nil
	}
	return value{kind: '0', text: fmt.Sprint(token)}, nil
}

// chainNumbers are members whose numbers depend on the chain. Only their JSON type is compared.
var chainNumbers = names(`height height_created height_included block_height latest_block_height earliest_block_height
	epoch_start_height epoch_height prev_height block_ordinal timestamp uptime_sec start end nonce nonces ak_nonce tx_nonce
	num_expected_blocks num_produced_blocks num_expected_chunks num_produced_chunks num_expected_chunks_per_shard
	num_produced_chunks_per_shard num_expected_endorsements num_produced_endorsements num_expected_endorsements_per_shard
	num_produced_endorsements_per_shard head_height final_head_height encoded_length gas_used max_block_height block_id
	storage_usage`)

// chainStrings are members whose strings depend on the chain, so that they are not compared.
var chainStrings = names(`timestamp_nanosec latest_block_time earliest_block_time genesis_time chain_id version build commit
	rustc_version stake amount locked total_supply balance_burnt balance cost tokens_burnt`)

// exactMembers are those of chainNumbers that are equal if both chains are at the same heights:
// counts of blocks, gas, and fees.
var exactMembers = names(`height height_created height_included block_height latest_block_height earliest_block_height
	epoch_start_height epoch_height prev_height block_ordinal nonce nonces ak_nonce tx_nonce
	num_expected_blocks num_produced_blocks num_expected_chunks num_produced_chunks num_expected_chunks_per_shard
	num_produced_chunks_per_shard num_expected_endorsements num_produced_endorsements num_expected_endorsements_per_shard
	num_produced_endorsements_per_shard encoded_length gas_used storage_usage balance_burnt cost tokens_burnt`)

// proofs are members whose whole value differs from neard's, even in its length.
var proofs = names(`proof block_proof outcome_root_proof approvals_after_next`)

func names(list string) map[string]bool {
	m := map[string]bool{}
	for _, n := range strings.Fields(list) {
		m[n] = true
	}
	return m
}

// zeroText is the text of the zero hash, which is the same on every chain.
var zeroText = primitives.Hash{}.String()

var (
	base58Word = regexp.MustCompile(`\b(?:ed25519:|secp256k1:|ml-dsa-65-hash:)?[1-9A-HJ-NP-Za-km-z]{32,100}\b`)
	heightWord = regexp.MustCompile(`(block #|BLOCK HEIGHT: |Height\()\d+`)
	tagWord    = regexp.MustCompile(`(version tag: )\d+`) // the number is the first byte of a hash
)

// normalText replaces the parts of a string that depend on the chain: hashes, keys and signatures,
// and heights in error texts unless exact is set.
func normalText(s string, exact bool) string {
	s = base58Word.ReplaceAllStringFunc(s, func(word string) string {
		scheme, digits, isKey := strings.Cut(word, ":")
		if !isKey {
			if h, err := primitives.ParseHash(word); err != nil || h.String() == zeroText {
				return word
			}
			return "<hash>"
		}
		if strings.Trim(digits, "1") == "" { // the zero key or signature
			return word
		}
		if _, err := primitives.ParsePublicKey(word); err == nil {
			return "<" + scheme + " key>"
		}
		if _, err := primitives.ParseSignature(word); err == nil {
			return "<" + scheme + " signature>"
		}
		return word
	})
	s = tagWord.ReplaceAllString(s, "${1}<n>")
	if exact {
		return s
	}
	return heightWord.ReplaceAllString(s, "${1}<n>")
}

// append appends v to b, with fixed values in place of those that depend on the chain. key is the
// name of the member that holds v.
func (v *value) append(b []byte, key string, exact bool) []byte {
	same := exact && exactMembers[key]
	switch {
	case proofs[key] && v.kind == '[':
		return append(b, `<proof>`...)
	case v.kind == '{':
		b = append(b, '{')
		for i, k := range v.keys {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(append(append(b, '"'), k...), '"', ':')
			of := k
			if key == "validator_reward_paid_prev_epoch" {
				of = "amount"
			}
			b = v.items[i].append(b, of, exact)
		}
		return append(b, '}')
	case v.kind == '[':
		b = append(b, '[')
		for i := range v.items {
			if i > 0 {
				b = append(b, ',')
			}
			b = v.items[i].append(b, key, exact)
		}
		return append(b, ']')
	case v.kind == '"' && chainStrings[key] && !same:
		return append(b, `"<text>"`...)
	case v.kind == '"':
		return primitives.AppendJSONString(b, normalText(v.text, exact))
	case v.number && chainNumbers[key] && !same:
		if strings.ContainsAny(v.text, ".eE") {
			return append(b, "<float>"...)
		}
		return append(b, "<n>"...)
	}
	return append(b, v.text...)
}

// Normalize returns a reply's body with fixed values in place of those that depend on the chain. It
// treats a body that is not JSON as one string. exact keeps numbers of blocks, gas and fees,
// because both chains are at the same heights.
func Normalize(body string, exact bool) string {
	v, err := parseJSON(body)
	if err != nil {
		return normalText(body, exact)
	}
	return string(v.append(nil, "", exact))
}

// comparedHeaders are the headers that must be equal, present or absent.
var comparedHeaders = []string{
	"content-type", "allow", "vary", "access-control-allow-origin", "access-control-expose-headers", "access-control-allow-methods",
	"access-control-allow-headers", "access-control-max-age",
}

// Compare returns how a reply differs from a recorded one; "" if it does not. exact is as in
// Normalize.
func Compare(want *Line, got Reply, exact bool) string {
	if got.Status != want.Status {
		return fmt.Sprintf("status %d, want %d; body %.300s", got.Status, want.Status, got.Body)
	}
	for _, h := range comparedHeaders {
		if got.Headers[h] != want.Headers[h] {
			return fmt.Sprintf("header %s is %q, want %q", h, got.Headers[h], want.Headers[h])
		}
	}
	return CompareBodies(got.Body, want.Body, exact)
}

// CompareBodies compares two bodies after normalising and returns the difference; "" if they are
// equal.
func CompareBodies(got, want string, exact bool) string {
	g, w := Normalize(got, exact), Normalize(want, exact)
	if g == w {
		return ""
	}
	i := 0
	for i < len(g) && i < len(w) && g[i] == w[i] {
		i++
	}
	from := max(i-80, 0)
	return fmt.Sprintf("body differs at %d:\n got ...%s\nwant ...%s", i, cut(g[from:]), cut(w[from:]))
}

func cut(s string) string {
	if len(s) > 240 {
		return s[:240] + "..."
	}
	return s
}

// Run sends a line's request and compares the reply.
func Run(c Client, l *Line) string {
	got, err := c(l.Request())
	if err != nil {
		return "no reply: " + err.Error()
	}
	if l.Method == "HEAD" {
		got.Body = ""
	}
	return Compare(l, got, false)
}

// Select returns those of the lines that the plan gives this kind.
func (p Plan) Select(lines []Line, kind Kind) []*Line {
	var out []*Line
	for i := range lines {
		if p[lines[i].File][lines[i].N].Kind == kind {
			out = append(out, &lines[i])
		}
	}
	return out
}

// Count returns how many lines of a recorded file have each kind.
func (p Plan) Count(file string) map[Kind]int {
	out := map[Kind]int{}
	for _, e := range p[file] {
		out[e.Kind]++
	}
	return out
}
