package partialwitness

// A payload of at most quickSize bytes is decoded in Quick, unless it decompresses to more than
// quickRaw bytes.
const (
	quickSize = 64 << 10 // maximum number of compressed bytes
	quickRaw  = 1 << 20  // maximum number of decompressed bytes
)

// Work is the decoding of a payload, which may take long: a witness has up to MaxEncoded bytes. The
// caller calls Quick. If Quick returns false, the caller calls Run once on any goroutine, and then
// Step with Worked.
type Work struct {
	size int // number of compressed bytes
	// run decodes the payload. most is the maximum number of decompressed bytes; 0: the regular
	// bound. After a failure because of most, run may be called again with another value.
	run  func(most int) error
	then func(error) (Out, error)
	err  error
}

// Quick decodes a small payload, and returns whether it decoded the payload without an error. If
// Quick returns false, the caller calls Run.
func (w *Work) Quick() bool {
	return w.size <= quickSize && w.run(quickRaw) == nil
}

// Run decodes the payload with the regular bound on its size and keeps the error for Worked. The
// caller must not call Run concurrently with Quick.
func (w *Work) Run() { w.err = w.run(0) }

// Worked is the event that Run has returned.
type Worked struct{ *Work }

func (Worked) event() {}
