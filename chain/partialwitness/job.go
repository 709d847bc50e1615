package partialwitness

// A payload of at most quickSize bytes is decoded in Quick, unless it decompresses to more than
// quickRaw bytes.
const (
	quickSize = 64 << 10 // compressed bytes
	quickRaw  = 1 << 20
)

// Work is decoding that may take long, since a witness has up to MaxEncoded bytes. Call Quick; if
// it returns false, call Run once on any goroutine, and then Step with Worked.
type Work struct {
	size int // compressed bytes
	// run decodes the payload. most bounds the decompressed bytes; 0 stands for the regular bound.
	// run may be called again after it failed with a small bound.
	run  func(most int) error
	then func(error) (Out, error)
	err  error
}

// Quick tries to do the work at once, and returns whether it succeeded.
func (w *Work) Quick() bool {
	return w.size <= quickSize && w.run(quickRaw) == nil
}

// Run does the work. It must not be called concurrently with Quick.
func (w *Work) Run() { w.err = w.run(0) }

// Worked is the event that a Work was run.
type Worked struct{ *Work }

func (Worked) event() {}
