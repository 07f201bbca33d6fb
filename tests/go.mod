module tidemill/tests

go 1.26
