package view

// SteerError says why a node does not do what a sandbox is asked to.
type SteerError struct{ Reason string }

func (e *SteerError) Error() string { return "sandbox: " + e.Reason }
