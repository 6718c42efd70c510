// The page of a file: its data is in it.

import {readData} from "./data.js";
import {showPage, tellAge} from "./main.js";

const written = readData();
showPage(written);
setInterval(() => tellAge(written), 1000);
