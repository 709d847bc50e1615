package partialwitness

// What is short is put together at once, unless it unpacks to more than quickRaw.
const (
	quick    = 64 << 10 // bytes, packed
	quickRaw = 1 << 20
)

// Work is what takes long with what others have sent: to put it together and to unpack it. A producer's witness may be as long as MaxEncoded. Quick, or else
// Run on any goroutine, once; then Worked is to be said.
type Work struct {
	size int                  // packed
	run  func(most int) error // of bytes, not packed; it may be tried with less than there may be
	then func(error) (Out, error)
	err  error
}

// Quick does what takes no time, and tells whether that is all.
func (w *Work) Quick() bool {
	return w.size <= quick && w.run(quickRaw) == nil
}

// Run does it.
func (w *Work) Run() { w.err = w.run(0) }

// Worked says that a Work is done.
type Worked struct{ *Work }

func (Worked) event() {}
