module go.tidemill.dev/client

go 1.25
