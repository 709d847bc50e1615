package conformance

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"
)

// Accounts of the first recording.
const (
	probe     primitives.AccountID = "wprobe.test.near"
	garbage   primitives.AccountID = "wgarbage.test.near"
	gasKeys   primitives.AccountID = "wgas.test.near"
	publisher primitives.AccountID = "wglobal.test.near"
	derived   primitives.AccountID = "0s88862e9d22efc01c79fdd462e2df4dc9bc425d61"
)

// keyOf returns a full-access key of an account, made from a seed.
func keyOf(w map[primitives.AccountID]primitives.SecretKey, id primitives.AccountID, seed string, nonce primitives.Nonce) *genesis.AccessKeyRecord {
	w[id] = seedKey(seed)
	return &genesis.AccessKeyRecord{AccountID: id, PublicKey: w[id].PublicKey().Handle(), AccessKey: primitives.AccessKey{Nonce: nonce}}
}

// TestWireRepliesEqualNeardsOnChain plays wire.jsonl.gz against a node whose chain has what the
// requests ask for: accounts and state from its genesis, everything else by transactions, all at
// the heights of the recording.
func TestWireRepliesEqualNeardsOnChain(t *testing.T) {
	files, plan := load(t)
	lines := files["wire"]
	line := func(n int) *Line { return &lines[n-1] }

	// The contents of the replies are taken from the replies.
	g := recordedGenesis(t, line(82), nil)
	var code []byte // of the probe
	resultOf(t, line(274), "code_base64", &code)
	var page []struct{ Key, Value []byte }
	resultOf(t, line(290), "values", &page)
	var state []struct{ Key, Value []byte } // of the derived account
	resultOf(t, line(288), "values", &state)
	var code8 []byte
	resultOf(t, line(334), "code_base64", &code8)

	keys := map[primitives.AccountID]primitives.SecretKey{}
	call := recorded(t, line(426))
	billion, thousand := primitives.MustParseBalance("1000000000000000000000000000000000"), primitives.NEAR(1000)
	rest := billion
	for range 4 {
		rest, _ = rest.Sub(thousand)
	}
	probeAccount, probeCode := withCode(account(probe, thousand, primitives.Balance{}), code)
	garbageAccount, garbageCode := withCode(account(garbage, thousand, primitives.Balance{}), []byte("this is not wasm"))
	records := []genesis.Record{
		account(root, billion, g.Validators[0].Amount), keyOf(keys, root, WireSeeds[0], call.Nonce.Nonce-1),
		account("near", rest, primitives.Balance{}), keyOf(keys, "near", "near", 0),
		probeAccount, keyOf(keys, probe, "wprobe", 0), probeCode, garbageAccount, garbageCode,
		account(gasKeys, thousand, primitives.Balance{}), keyOf(keys, gasKeys, "wgas", 0),
		account(publisher, thousand, primitives.Balance{}), keyOf(keys, publisher, "wglobal", 0),
	}
	const pairs = 200 // key0000 ...: more than 50 kB
	if size := pairs * len(page[0].Value); size < 50_000 {
		t.Fatalf("the state is %d bytes", size)
	}
	for i := range pairs {
		records = append(records, &genesis.DataRecord{AccountID: probe, Key: fmt.Appendf(nil, "key%04d", i), Value: page[0].Value})
	}

	w := newWorld(t, g, records, 100_000)
	w.keys = keys
	w.scene.Resign = Resigner(w.base)
	w.stand("DGjyWx12xsGyELcMp3Fn8zWG49EtY932NaLxb9cnzPTf", w.engine.Genesis().Hash.String())

	// The setup by the recorder.
	init := primitives.StateInit{Code: primitives.GlobalContractID{Account: publisher}}
	for _, kv := range state {
		init.Data = append(init.Data, primitives.StateEntry(kv))
	}
	if id := init.DerivedAccount(); id != derived {
		init.Code = primitives.GlobalContractID{Hash: primitives.HashBytes(code8)}
	}
	if id := init.DerivedAccount(); id != derived {
		t.Fatalf("the derived account is %s, want %s", id, derived)
	}
	gasKey := primitives.MustParsePublicKey("ed25519:6jSR1m8g58Az6yRZPv6sebkorc4gYXNPhv1BH8983asW")
	w.mine(14)
	setup := []primitives.Hash{
		w.send(gasKeys, gasKeys, 1, &primitives.AddKey{PublicKey: gasKey, AccessKey: primitives.AccessKey{GasKey: &primitives.GasKeyInfo{NumNonces: 3}}}),
		w.send(publisher, publisher, 1, &primitives.DeployGlobalContract{Code: code, Mode: primitives.GlobalByAccountID}),
		w.send(publisher, publisher, 2, &primitives.DeployGlobalContract{Code: code8, Mode: primitives.GlobalByCodeHash}),
	}
	w.mine(18)
	setup = append(setup, w.send("near", derived, 1, &primitives.DeterministicStateInit{Init: init, Deposit: primitives.NEAR(1)}))

	// The recorded call: in a block at 130, its receipt at 131.
	w.mine(129)
	// Two recorded requests send the hash as if it were a transaction in base64. neard's reply depends
	// on its length and its first byte, which must not be a known version of transactions.
	for base := primitives.Height(129); ; base-- {
		w.stand(call.BlockHash.String(), w.hash(base))
		hash := Resigner(w.base)(call).Hash().String()
		if first, err := base64.StdEncoding.DecodeString(hash[:4]); err == nil && first[0] > 1 && len(hash) == 44 {
			break
		}
	}
	w.submit(w.scene.Resign(call))
	w.mine(141)
	for _, hash := range setup {
		w.succeeded(hash)
	}
	sent, _, err := w.engine.Transactions().Transaction(w.scene.Resign(call).Hash())
	w.must(err)
	w.stand("3t2gmd8zAzogBrrERcEdxMdXWeKmucXiNH7JMisBvuAo", sent.Hash().String())
	receipt, _, err := w.engine.Transactions().Outcome(sent.Hash())
	w.must(err)
	w.stand("AqtR8v2dh9USvLtECuM332gLy5MhmdNAMUHWafrf6hEW", receipt.ReceiptIDs[0].String())
	w.stand("EvFnp39NjX3yj4o77w7iTmB4dyo2r4Qwo9cYTGsfXHYY", w.hash(131))
	w.stand("Cm44fPfn1rcy1CagcUqmeRrSc2hVvbQVsaQGihLkzBHs", w.hash(138))
	w.stand("4fMtfBxuu4gWgrziaGkcH1SiHWiU2JqadKU6TiKkS8Ci", w.hash(140))
	w.stand("4vJ9JU1bJJE96FWSJKvHsmmFADCg4gpZQff4P3bkLKi", w.hash(20))
	w.stand("5umbLczAbqPcsaS6RTWDqq4aWuM1szEALamMpBEMzK3r", w.engine.Head().Header().EpochID.String())
	w.stand("7RSDg164oZvfpGPUeJeBie74tDY145ry8nDyn2AHtAuZ", w.chunk(131).String())

	// The heights of the recorded chain at these lines.
	heights := map[int]primitives.Height{112: 142, 300: 143, 426: 300, 516: 312, 536: 318}
	passed := w.play(lines, plan, func(n int) {
		if h := heights[n]; h != 0 {
			w.mine(h)
		}
	})
	check(t, passed, plan.Count("wire"))
}

// check fails the test unless every line of a recording has passed.
func check(t *testing.T, passed, want map[Kind]int) {
	t.Helper()
	t.Logf("passed: %v", passed)
	for _, k := range []Kind{Offline, Chain, Differs} {
		if passed[k] != want[k] {
			t.Errorf("%d lines of kind %s passed, want %d", passed[k], k, want[k])
		}
	}
}

// trueHeight expects the recorded chunk, except that the height that included it replaces neard's
// 0.
func trueHeight(t *testing.T, l *Line, got Reply) {
	const neards, ours = `"height_created":131,"height_included":0,`, `"height_created":131,"height_included":131,`
	if !strings.Contains(got.Body, ours) {
		t.Errorf("%v: %.900s, want %s", l, got.Body, ours)
	}
	got.Body = strings.Replace(got.Body, ours, neards, 1)
	if diff := Compare(l, got, true); diff != "" {
		t.Errorf("%v: difference %s", l, diff)
	}
}

// TestWireRepliesEqualNeardsOnHistory plays wire2.jsonl.gz: waits of every level, refusals of every
// kind, and a history whose beginning was collected.
func TestWireRepliesEqualNeardsOnHistory(t *testing.T) {
	files, plan := load(t)
	lines := files["wire2"]
	line := func(n int) *Line { return &lines[n-1] }
	const sender, receiver primitives.AccountID = "alice.test.near", "test1b.test.near"

	var layout json.RawMessage
	resultOf(t, line(103), "shard_layout", &layout)
	g := recordedGenesis(t, &files["wire"][81], func(m map[string]json.RawMessage) {
		m["chain_id"], m["shard_layout"] = json.RawMessage(`"test-chain-wire2"`), layout
	})
	var code []byte
	resultOf(t, &files["wire"][273], "code_base64", &code)
	first := recorded(t, line(1))
	keys := map[primitives.AccountID]primitives.SecretKey{}
	billion := primitives.MustParseBalance("1000000000000000000000000000000000")
	rest, _ := billion.Sub(primitives.NEAR(100))
	records := []genesis.Record{
		account(root, billion, g.Validators[0].Amount), keyOf(keys, root, WireSeeds[0], 0),
		account("near", rest, primitives.Balance{}), keyOf(keys, "near", "near", 0),
		account(sender, primitives.NEAR(100), primitives.Balance{}), keyOf(keys, sender, WireSeeds[1], first.Nonce.Nonce-2),
	}
	_, contract := withCode(records[4].(*genesis.AccountRecord), code)
	records = append(records, contract, &genesis.DataRecord{AccountID: sender, Key: []byte("k"), Value: []byte("v")})

	w := newWorld(t, g, records, 5)
	w.keys = keys
	w.scene.Resign = Resigner(w.base)
	w.stand("GUNAoBwyQSFspLpGaoTVvrrLZyziiMNxu6JdeZQWSNPj", w.hash(1))
	// The receiver is created on the chain: the genesis of its shard is empty (line 115).
	born := w.send(root, receiver, 1, &primitives.CreateAccount{}, &primitives.Transfer{Deposit: primitives.NEAR(100)})
	w.mine(30)
	w.succeeded(born)
	early := w.send(sender, receiver, first.Nonce.Nonce-1, &primitives.Transfer{Deposit: primitives.Yocto(1)})
	w.mine(40)
	w.stand("FQciYCvs6Wg45BvAp8jPgwcwsTMQaRhcUJxEeZavynAx", w.chunk(32).String())
	w.mine(140)
	out := w.succeeded(early)
	w.stand("6WKfJtw6tw6TCRzoC6cdX8vf4YMF9uDkZqfnHr7UW9Av", early.String())
	w.stand("6MMzBFsAw2C6BK9ixtVZeJbXQeQkYSKT3G3oLiYSKoB9", out.Outcome.ReceiptIDs[0].String())
	w.stand("8g8r32zqq6ewXHnuTdp7Y8zm5KGkBe1wNALQp8imj9iL", w.hash(32))

	passed := w.play(lines, plan, func(n int) {
		switch n {
		case 57:
			w.mine(594)
			w.collect(108)
		case 132: // the recorded chain had advanced when fast_forward was answered
			w.mine(797)
		case 137:
			w.mine(799)
		}
		if n == 62 || n == 126 { // the light client's head
			w.stand("EWpZ8qfNk6SLwaCgiUn5nVkUaMsUudxpwr16r155TNdB", w.engine.Final().Hash.String())
			w.stand("47osZk5FBRAj5CtayjZsvyyKMpZKxhACS4fZNBYygJH8", w.engine.Final().Hash.String())
		}
	})
	check(t, passed, plan.Count("wire2"))
}
