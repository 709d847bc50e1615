package conformance

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"
	"github.com/troupe-chain/troupe/rpc/openapi"
)

var writePages = flag.Bool("update", false, "write docs/rpc again")

const pagesFolder = "../../../docs/rpc"

// pagesWorld is a chain with an account, a contract, a transaction that called it, and state.
func pagesWorld(t *testing.T) (w *world, tx *primitives.SignedTransaction) {
	files, _ := load(t)
	g := recordedGenesis(t, &files["wire"][81], nil)
	var code []byte
	resultOf(t, &files["wire"][273], "code_base64", &code)
	keys := map[primitives.AccountID]primitives.SecretKey{}
	billion := primitives.MustParseBalance("1000000000000000000000000000000000")
	contract, its := withCode(account("contract.test.near", primitives.NEAR(100), primitives.Balance{}), code)
	w = newWorld(t, g, []genesis.Record{
		account(root, billion, g.Validators[0].Amount), keyOf(keys, root, WireSeeds[0], 0), account("near", billion, primitives.Balance{}),
		keyOf(keys, "near", "near", 0), contract, its, &genesis.DataRecord{AccountID: "contract.test.near", Key: []byte("greeting"), Value: []byte("hello")},
	}, 100_000)
	w.keys = keys
	gasKey := seedKey("gas")
	w.mine(10)
	w.send(root, root, 1, &primitives.AddKey{PublicKey: gasKey.PublicKey(), AccessKey: primitives.AccessKey{GasKey: &primitives.GasKeyInfo{NumNonces: 2}}})
	w.send("near", "near", 1, &primitives.DeployGlobalContract{Code: []byte("\x00asm\x01\x00\x00\x00"), Mode: primitives.GlobalByAccountID})
	w.mine(20)
	args, err := base64.StdEncoding.DecodeString("HQAFAAAAAAAAAAAnAAEAAAAAABoABQAAAAAAAAAALAABAAAAAAD/YSBsb2d2YWx1ZQ==")
	w.must(err)
	key := w.keys["near"]
	call := primitives.Transaction{SignerID: "near", PublicKey: key.PublicKey(), Nonce: primitives.TransactionNonce{Nonce: 2}, ReceiverID: "contract.test.near",
		BlockHash: w.engine.Head().Hash, Actions: []primitives.Action{&primitives.FunctionCall{Method: "run", Args: args, Gas: 30_000_000_000_000}}}
	hash := call.Hash()
	tx = primitives.NewSignedTransaction(call, key.Sign(hash[:]))
	w.submit(tx)
	w.mine(100)
	return w, tx
}

// examples are the parameters of the pages' requests.
func (w *world) examples(tx *primitives.SignedTransaction) map[string]string {
	w.t.Helper()
	out := w.succeeded(tx.Hash())
	head := w.engine.Final().Hash.String()
	at := w.hash(22)
	signed := base64.StdEncoding.EncodeToString(tx.AppendBorsh(nil))
	key, gas := w.keys["near"].PublicKey().String(), seedKey("gas").PublicKey().String()
	next := tx.Transaction
	next.Nonce.Nonce, next.BlockHash = 3, w.engine.Head().Hash
	sum := next.Hash()
	tried := base64.StdEncoding.EncodeToString(primitives.NewSignedTransaction(next, w.keys["near"].Sign(sum[:])).AppendBorsh(nil))
	receipt := out.Outcome.ReceiptIDs[0].String()
	f := fmt.Sprintf
	whole := f(`{"signed_tx_base64":%q,"wait_until":"FINAL"}`, signed)
	return map[string]string{
		"block": `{"finality":"final"}`, "chunk": f(`{"block_id":%q,"shard_id":0}`, at), "EXPERIMENTAL_congestion_level": f(`{"block_id":%q,"shard_id":0}`, at),
		"gas_price": `[null]`, "query": `{"request_type":"view_account","finality":"final","account_id":"near"}`,
		"EXPERIMENTAL_view_account": `{"finality":"final","account_id":"near"}`, "EXPERIMENTAL_view_code": `{"finality":"final","account_id":"contract.test.near"}`,
		"EXPERIMENTAL_view_state":           `{"finality":"optimistic","account_id":"contract.test.near","prefix_base64":"","include_proof":true}`,
		"EXPERIMENTAL_view_access_key":      f(`{"finality":"final","account_id":"near","public_key":%q}`, key),
		"EXPERIMENTAL_view_access_key_list": `{"finality":"final","account_id":"test.near","limit":1}`,
		"EXPERIMENTAL_view_gas_key_nonces":  f(`{"finality":"final","account_id":"test.near","public_key":%q}`, gas),
		"EXPERIMENTAL_call_function": `{"finality":"final","account_id":"contract.test.near","method_name":"run",` +
			`"args_base64":"HQAFAAAAAAAAAAAnAAEAAAAAABoABQAAAAAAAAAALAABAAAAAAD/YSBsb2d2YWx1ZQ=="}`,
		"changes":                    f(`{"block_id":%q,"changes_type":"account_changes","account_ids":["near"]}`, at),
		"EXPERIMENTAL_indexer_block": f(`{"block_hash":%q}`, at),
		"troupe_streamer_message":    f(`{"block_id":%q}`, at), "troupe_block_document": `{"height":2,"part":"shard","shard_id":0}`, "troupe_transactions": `{"account_id":"near","limit":1,"blocks":1}`,
		"troupe_accounts": `{"prefix":"ne"}`,
		"block_effects":   f(`{"block_id":%q}`, at), "EXPERIMENTAL_changes_in_block": f(`{"block_id":%q}`, at), "tx": f(`{"tx_hash":%q,"sender_account_id":"near","wait_until":"FINAL"}`, tx.Hash()),
		"tx_status": f(`{"tx_hash":%q,"sender_account_id":"near"}`, tx.Hash()), "EXPERIMENTAL_tx_status": f(`{"tx_hash":%q,"sender_account_id":"near"}`, tx.Hash()), "send_tx": whole,
		"broadcast_tx_async": f(`[%q]`, signed), "broadcast_tx_commit": f(`[%q]`, signed),
		"EXPERIMENTAL_simulate_tx": f(`{"signed_tx_base64":%q,"finality":"optimistic"}`, tried), "EXPERIMENTAL_trace_tx": f(`[%q,"near"]`, tx.Hash()),
		"EXPERIMENTAL_receipt": f(`{"receipt_id":%q}`, receipt), "EXPERIMENTAL_receipt_to_tx": f(`{"receipt_id":%q}`, receipt),
		"light_client_proof":                    f(`{"type":"transaction","transaction_hash":%q,"sender_id":"near","light_client_head":%q}`, tx.Hash(), head),
		"EXPERIMENTAL_light_client_block_proof": f(`{"block_hash":%q,"light_client_head":%q}`, at, head),
		"next_light_client_block":               f(`{"last_block_hash":%q}`, at), "status": `[]`, "health": `[]`, "network_info": `[]`,
		"validators": `[null]`, "EXPERIMENTAL_validators_ordered": `[null]`, "maintenance_windows": `{"account_id":"near"}`, "genesis_config": `[]`,
		"EXPERIMENTAL_protocol_config": `{"finality":"final"}`, "client_config": `[]`, "EXPERIMENTAL_split_storage_info": `[]`,
		"sandbox_mine":         `{"blocks":1}`,
		"sandbox_patch_state":  f(`{"records":[{"Data":{"account_id":"contract.test.near","data_key":%q,"value":%q}}]}`, "Z3JlZXRpbmc=", "aGk="),
		"sandbox_fast_forward": `{"delta_height":10}`,
	}
}

// short shortens JSON for a page: two items of a list, the beginning of a text.
func short(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			v[k] = short(x)
		}
	case []any:
		if len(v) > 2 {
			v = append(v[:2:2], "...")
		}
		for i := range v {
			v[i] = short(v[i])
		}
		return v
	case string:
		if len(v) > 120 {
			return v[:60] + "..."
		}
	}
	return v
}

func pretty(t *testing.T, text string, cut bool) string {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%v in %.200s", err, text)
	}
	if cut {
		v = short(v)
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		t.Fatal(err)
	}
	return strings.TrimRight(b.String(), "\n")
}

var typeName = regexp.MustCompile(`\b[A-Z][A-Za-z0-9_]*[a-z][A-Za-z0-9_]*\b`)

// shapesOf describes the shape of a method, and of the types in it.
func shapesOf(method string) string {
	lines, told := []string{}, map[string]bool{}
	var tell func(text string, deep int)
	tell = func(text string, deep int) {
		for _, name := range typeName.FindAllString(text, -1) {
			if of := openapi.Text(name, false); of != "" && !told[name] && deep > 0 {
				told[name] = true
				lines = append(lines, name+" = "+of)
				tell(of, deep-1)
			}
		}
	}
	text := openapi.Text(method, true)
	params, result, _ := strings.Cut(text, " -> ")
	tell(params, 3)
	tell(result, 2)
	return strings.Join(append([]string{"params  " + params, "result  " + result, ""}, lines...), "\n")
}

// longRequest bounds the requests that a page shows whole, in bytes.
const longRequest = 2000

// page is the page of a method in docs/rpc.
func page(t *testing.T, d *checker, name string, aliases []string, request, reply string) string {
	path := d.paths["/"+name].(map[string]any)["post"].(map[string]any)
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n%s\n", name, path["description"])
	if len(aliases) > 0 {
		fmt.Fprintf(&b, "\nAlso: `%s`.\n", strings.Join(aliases, "`, `"))
	}
	fmt.Fprintf(&b, "\n## Request\n\n```json\n%s\n```\n\n## Reply\n\n```json\n%s\n```\n", pretty(t, request, len(request) > longRequest), pretty(t, reply, true))
	var causes []string
	for _, x := range d.components["Cause_"+name].(map[string]any)["oneOf"].([]any) {
		m := x.(map[string]any)
		if _, is := m["$ref"]; is {
			continue // INTERNAL_ERROR, which all methods have
		}
		of := m["properties"].(map[string]any)
		info := ""
		if i, ok := of["info"].(map[string]any); ok {
			info = strings.Join(slices.Sorted(maps.Keys(d.members(i))), ", ")
		}
		causes = append(causes, fmt.Sprintf("| `%v` | %s |\n", of["name"].(map[string]any)["enum"].([]any)[0], info))
	}
	if len(causes) > 0 {
		fmt.Fprintf(&b, "\n## Faults\n\n| cause | info |\n|---|---|\n%s", strings.Join(causes, ""))
	}
	fmt.Fprintf(&b, "\n## Shapes\n\n```\n%s\n```\n\n[README.md](README.md#shapes) explains shapes. Replies and errors come in the envelope of JSON-RPC 2.0.\n", shapesOf(name))
	return b.String()
}

// members returns the names of a schema's members, of all its choices.
func (c *checker) members(schema map[string]any) map[string]bool {
	out := map[string]bool{}
	if ref, ok := schema["$ref"].(string); ok {
		schema = c.components[ref[strings.LastIndexByte(ref, '/')+1:]].(map[string]any)
	}
	properties, _ := schema["properties"].(map[string]any)
	for name := range properties {
		out[name] = true
	}
	choices, _ := schema["oneOf"].([]any)
	for _, x := range choices {
		maps.Copy(out, c.members(x.(map[string]any)))
	}
	return out
}

var (
	signedText = regexp.MustCompile(`"[A-Za-z0-9+/]{200,}=*"`)
	taken      = regexp.MustCompile(`"(bytes|requests)": \d+`) // that depend on memory or on another node
)

// normalPage is a page without what differs from run to run: its JSON is normalised.
func normalPage(text string) string {
	parts := strings.Split(text, "```json\n")
	for i := 1; i < len(parts); i++ {
		body, rest, _ := strings.Cut(parts[i], "\n```")
		parts[i] = Normalize(taken.ReplaceAllString(signedText.ReplaceAllString(body, `"signed"`), `"$1": 0`), false) + "\n```" + rest
	}
	return strings.Join(parts, "```json\n")
}

// TestMethodPagesAreCurrent: docs/rpc has an up-to-date page for each method, with a request and
// its reply. -update writes the pages.
func TestMethodPagesAreCurrent(t *testing.T) {
	w, tx := pagesWorld(t)
	d := newChecker(t, w.client)
	aliases := map[string][]string{}
	var names []string
	for path, p := range d.paths {
		about := p.(map[string]any)["post"].(map[string]any)["description"].(string)
		if of, ok := strings.CutPrefix(about, "Another name of "); ok {
			of, _, _ = strings.Cut(of, ".")
			aliases[of] = append(aliases[of], path[1:])
			continue
		}
		names = append(names, path[1:])
	}
	slices.Sort(names)
	// Methods that change the chain come last.
	own := func(name string) bool { return strings.HasPrefix(name, "sandbox_") }
	slices.SortStableFunc(names, func(a, b string) int { return boolInt(own(a)) - boolInt(own(b)) })
	examples := w.examples(tx)
	sandbox, steered, forked, ofFork := sandboxWorld(t)
	index := "# JSON-RPC methods\n\n" + pagesHead + "\n| method | |\n|---|---|\n"
	for _, name := range names {
		client := w.client
		params, ok := examples[name]
		if !ok {
			client = sandbox
			params, ok = steered[name]
		}
		if !ok {
			client = forked
			params, ok = ofFork[name]
		}
		if !ok {
			if !strings.HasSuffix(name, "subscribe") { // WebSocket methods have no page of this kind
				t.Errorf("there is no example for %s", name)
			}
			continue
		}
		request := fmt.Sprintf(`{"jsonrpc":"2.0","id":"1","method":%q,"params":%s}`, name, params)
		got, err := client(Request{Method: "POST", Path: "/", Body: request})
		if err != nil || got.Status != 200 || strings.Contains(got.Body, `"error":{`) {
			t.Errorf("%s: status %d, body %.300s, error %v", name, got.Status, got.Body, err)
			continue
		}
		text := page(t, d, name, aliases[name], request, got.Body)
		keep(t, name+".md", text)
		about, _, _ := strings.Cut(d.paths["/"+name].(map[string]any)["post"].(map[string]any)["description"].(string), ". ")
		index += fmt.Sprintf("| [%s](%s.md) | %s |\n", name, name, strings.TrimSuffix(about, "."))
	}
	keep(t, "README.md", index)
	stored, err := filepath.Glob(pagesFolder + "/*.md")
	if err != nil || len(stored) != len(examples)+len(steered)+len(ofFork)+1 {
		t.Errorf("%d pages for %d examples, %v", len(stored), len(examples)+len(steered)+len(ofFork), err)
	}
}

// TestMigrationGuideLinksExist: the pages that docs/guide/migrate.md links to exist.
func TestMigrationGuideLinksExist(t *testing.T) {
	text, err := os.ReadFile("../../../docs/guide/migrate.md")
	if err != nil {
		t.Fatal(err)
	}
	links := regexp.MustCompile(`\]\(([^)]+)\)`).FindAllStringSubmatch(string(text), -1)
	for _, m := range links {
		page, _, _ := strings.Cut(m[1], "#")
		if _, err := os.Stat("../../../docs/guide/" + page); err != nil {
			t.Errorf("docs/guide/migrate.md: %v", err)
		}
	}
	if len(links) < 10 {
		t.Errorf("%d links", len(links))
	}
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

const pagesHead = `Each method has a page with a request, its reply, its errors and its shapes. The pages are generated from the method table
and from the answers of a node (go test ./internal/testkit/conformance -run TestMethodPagesAreCurrent -update). GET /openapi.json describes the same.

Call a method by POST / with a JSON-RPC 2.0 envelope, or by POST /METHOD with an envelope or the bare parameters. An array
of envelopes is a batch. [Subscriptions](../guide/subscriptions.md) come by WebSocket, where every method works too.

In the replies, and in long requests, lists are cut after two items and long texts are shortened.

## Shapes

| notation | meaning |
|---|---|
| u8 ... u64, uint, i32, i64, double, bool, string, base64 | plain values; u32+ begins at 1 |
| time | RFC 3339 |
| null, any, "text" | null, anything, exactly this text |
| {a: SHAPE, b?: SHAPE} | an object; b may be missing |
| {!a: SHAPE}, {*: SHAPE} | an object with no other members; an object with any names |
| [SHAPE], [SHAPE; 2], [SHAPE, SHAPE] | a list; a list of two; a tuple |
| X?, X \| Y, X \|\| Y, X & Y | X or null; one of them; one or both; both at once |
| = value | the value if the member is missing |

## Methods
`

// keep compares a page with the stored one, or stores it.
func keep(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join(pagesFolder, name)
	if *writePages {
		if stored, err := os.ReadFile(path); err == nil && normalPage(text) == normalPage(string(stored)) {
			return // only hashes differ
		}
		if err := os.MkdirAll(pagesFolder, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	stored, err := os.ReadFile(path)
	if err != nil {
		t.Error(err)
		return
	}
	if got, want := normalPage(text), normalPage(string(stored)); got != want {
		i := 0
		for i < len(got) && i < len(want) && got[i] == want[i] {
			i++
		}
		t.Errorf("%s is not current (-update writes it again); at %d: ...%.200s\nstored ...%.200s", path, i, got[max(i-50, 0):], want[max(i-50, 0):])
	}
}
