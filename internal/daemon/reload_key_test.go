package daemon

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// TestReloadedValidatorKeySigns: a validator among others signs with the key that is reloaded, and
// status shows it. If the file is missing or belongs to another account, the node signs nothing and
// reports that. Its own key restores signing. A node that restarts within the process uses the last
// key.
func TestReloadedValidatorKeySigns(t *testing.T) {
	hm := loaded(t, made(t))
	on := true
	hm.Config.Network.Enabled, hm.Config.Network.Addr = &on, "127.0.0.1:0"
	v := hm.Genesis.Validators[0]
	v.AccountID, v.PublicKey = "near", primitives.SecretKeyFromSeed(primitives.ED25519, "other").PublicKey()
	hm.Genesis.Validators = append(hm.Genesis.Validators, v)
	h, err := Start(Options{Home: hm, Listen: "127.0.0.1:0", Trust: true})
	if err != nil {
		t.Fatal(err)
	}
	defer stop(t, h)
	own, path := *hm.ValidatorKey, hm.Paths.ValidatorKey
	next, stranger := own, own
	next.SecretKey = primitives.SecretKeyFromSeed(primitives.ED25519, "next")
	stranger.AccountID = "stranger"
	name := []string{"validator_key.json"}
	for _, x := range []struct {
		what           string
		file           *primitives.KeyFile
		taken, restart []string
		shown          primitives.PublicKey
		obstacle       string
	}{
		{"as it was", &own, nil, nil, own.PublicKey(), ""},
		// it has not staked with that
		{"another key", &next, name, nil, next.PublicKey(), "put the right key there"},
		{"no file", nil, name, nil, "", "was removed"},
		{"still none", nil, nil, nil, "", "was removed"},
		{"another account", &stranger, nil, name, "", "the key of stranger"},
		{"still another", &stranger, nil, name, "", "the key of stranger"},
		{"its own", &own, name, nil, own.PublicKey(), ""},
	} {
		if x.file == nil {
			_ = os.Remove(path)
		} else if err := os.WriteFile(path, x.file.MarshalIndent(), 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := h.Reload()
		if err != nil || !slices.Equal(r.Taken, x.taken) || !slices.Equal(r.Restart, x.restart) {
			t.Errorf("%s: %+v, %v; want %v and %v", x.what, r, err, x.taken, x.restart)
		}
		s, err := h.back.Status()
		if err != nil || s.ValidatorPublicKey != x.shown || (s.ValidatorAccountID == "") != (x.shown == "") {
			t.Errorf("%s: status has %v %v, %v", x.what, s.ValidatorAccountID, s.ValidatorPublicKey, err)
		}
		if got := h.Obstacle(); !strings.Contains(got, x.obstacle) || (got == "") != (x.obstacle == "") {
			t.Errorf("%s: got %q", x.what, got)
		}
		o := Options{Home: hm}
		if h.UpdateOptions(&o); (o.Home.ValidatorKey == nil) != (x.file == nil) || x.file != nil && *o.Home.ValidatorKey != *x.file {
			t.Errorf("%s: restarted with key %v", x.what, o.Home.ValidatorKey)
		}
	}
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Reload(); err == nil {
		t.Error("a file that is none is taken")
	}
}
