"""`paceline receive`: takes parts of records from Spark and Ray, and serves what was committed."""
