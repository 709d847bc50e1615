package daemon

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/internal/config"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// TestWorldDroppedWhileOpenedLeavesNoPort: a world that is dropped before it is reachable never
// becomes reachable and leaves nothing open: no port, and the node stops in time.
func TestWorldDroppedWhileOpenedLeavesNoPort(t *testing.T) {
	h := quiet(t, nil)
	g := h.worlds
	w, err := g.open(t.Context(), &h.Instance, &view.NewWorld{}, false)
	if err != nil {
		t.Fatal(err)
	}
	g.drop(w, endAsked)
	if err := g.publish(w, true); err == nil {
		t.Error("it is there")
	}
	if code, text := siteOf(t, h).get("/world/" + w.id + "/status"); code != http.StatusNotFound {
		t.Errorf("%d: text %s", code, text)
	}
	if addr := w.addr.Load(); addr != nil {
		for limit := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
			r, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Get("http://" + *addr + "/status")
			if err != nil {
				break
			}
			_ = r.Body.Close()
			if time.Now().After(limit) {
				t.Fatal("the port of the dropped world answers")
			}
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := g.close(ctx); err != nil {
		t.Error(err)
	}
}

// TestWorldPoolsCountAsMemory: transactions in a world's pools count as its memory, and are bounded
// by a fraction of the limit for worlds.
func TestWorldPoolsCountAsMemory(t *testing.T) {
	h := quiet(t, func(c *config.Config) { c.Worlds.Bytes = 64 << 20 })
	s := siteOf(t, h)
	w := s.world(`null`)
	in, key := s.in(w), loaded(t, h.home.Paths.Dir).ValidatorKey
	var mode struct{}
	if f := in.call("sandbox_set_production", `{"mode":"manual"}`, &mode); f != "" {
		t.Fatal(f)
	}
	one := h.worlds.find(w.ID)
	before, refused := one.bytes(), 0
	const long = 1 << 20
	for nonce := range 12 {
		tx, _ := encode(primitives.Transaction{SignerID: key.AccountID, PublicKey: key.SecretKey.PublicKey(), Nonce: primitives.TransactionNonce{Nonce: primitives.Nonce(nonce + 1)},
			ReceiverID: key.AccountID, BlockHash: parsed(t, w.Hash), Actions: []primitives.Action{&primitives.DeployContract{Code: bytes.Repeat([]byte{byte(nonce)}, long)}}}, key)
		var hash string
		if f := in.call("broadcast_tx_async", fmt.Sprintf(`[%q]`, tx), &hash); f != "" {
			refused++
		}
	}
	for limit := time.Now().Add(time.Minute); one.bytes() < before+3*long; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("%d bytes, %d before 12 transactions of %d bytes, of which %d were refused", one.bytes(), before, long, refused)
		}
	}
	time.Sleep(100 * time.Millisecond)
	if most := before + 4<<20 + long; one.bytes() > most {
		t.Errorf("%d bytes, want at most %d", one.bytes(), most)
	}
}

// TestWorldInheritsItsParentsMocks: a world starts with its parent's signature mocks and can change
// its own.
func TestWorldInheritsItsParentsMocks(t *testing.T) {
	h := quiet(t, nil)
	s := siteOf(t, h)
	mocksOf := func(s chainClient) string {
		var status struct {
			Mocked []string `json:"mocked_verification"`
		}
		if f := s.call("status", `[]`, &status); f != "" {
			t.Fatal(f)
		}
		return fmt.Sprint(status.Mocked)
	}
	var none struct{}
	if f := s.call("sandbox_mock_verification", `{"ed25519_verify":true}`, &none); f != "" {
		t.Fatal(f)
	}
	w := s.in(s.world(`null`))
	if want := mocksOf(s); want == "[]" || mocksOf(w) != want {
		t.Errorf("mocks of the world %s, of its parent %s", mocksOf(w), want)
	}
	if f := w.call("sandbox_mock_verification", `null`, &none); f != "" {
		t.Fatal(f)
	}
	if mocksOf(w) != "[]" || mocksOf(s) == "[]" {
		t.Errorf("after the change: mocks of the world %s, of its parent %s", mocksOf(w), mocksOf(s))
	}
}

func TestWaitInDroppedWorldFails(t *testing.T) {
	h := quiet(t, nil)
	s := siteOf(t, h)
	w := s.world(`null`)
	in, key := s.in(w), loaded(t, h.home.Paths.Dir).ValidatorKey
	var mode struct{}
	if f := in.call("sandbox_set_production", `{"mode":"manual"}`, &mode); f != "" {
		t.Fatal(f)
	}
	tx, _ := encode(primitives.Transaction{SignerID: key.AccountID, PublicKey: key.SecretKey.PublicKey(), Nonce: primitives.TransactionNonce{Nonce: 1},
		ReceiverID: key.AccountID, BlockHash: parsed(t, w.Hash), Actions: []primitives.Action{&primitives.Transfer{}}}, key)
	result := make(chan string, 1)
	one := h.worlds.find(w.ID)
	before := one.bytes()
	go func() {
		var out struct{}
		result <- in.call("send_tx", fmt.Sprintf(`{"signed_tx_base64":%q,"wait_until":"FINAL"}`, tx), &out)
	}()
	for limit := time.Now().Add(time.Minute); one.bytes() == before; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatal("the transaction does not wait")
		}
	}
	if f := s.drop(w.ID); f != "" {
		t.Fatal(f)
	}
	if f := <-result; f == "" {
		t.Error("the wait ended without an error")
	}
}
