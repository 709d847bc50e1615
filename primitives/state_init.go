package primitives

// DerivedAccount returns the id of the account that s makes: DeterministicID of its encoding.
func (s *StateInit) DerivedAccount() AccountID { return DeterministicID(s.AppendBorsh(nil)) }
