package tidemill

// For tests of the package's outside.
var (
	StartServer = startServer
	CheckLeaks  = checkLeaks
	FreePort    = freePort
)

// Address is where the server listens.
func (s *testServer) Address() string { return s.address }
